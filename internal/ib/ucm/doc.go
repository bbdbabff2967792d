// Package ucm makes the calls of the RDMA connection manager by the table of
// package cmabi: a File is /dev/infiniband/rdma_cm, or what stands in for it in tests.
// VERBS_DEBUG=1 in the environment has each call printed to standard error.
package ucm
