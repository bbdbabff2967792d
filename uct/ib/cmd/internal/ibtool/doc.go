// Package ibtool has the common code of the command line tools for RDMA devices: selection of a
// device, a port and a GID by the same flags.
package ibtool
