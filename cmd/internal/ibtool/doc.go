// Package ibtool is what the command line tools for RDMA devices share: they find
// a device, a port and a GID by the same flags.
package ibtool
