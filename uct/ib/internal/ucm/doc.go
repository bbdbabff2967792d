// Package ucm executes the commands of the RDMA connection manager by the table of package cmabi. A
// File is /dev/infiniband/rdma_cm, or a substitute in tests. With VERBS_DEBUG=1 in the environment
// each command is printed to standard error.
package ucm
