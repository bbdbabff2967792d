// Package verbstest is an RDMA device without a kernel: it answers the requests of
// package uverbs by the same table, as the soft-RoCE driver rdma_rxe does, shares
// queues with whoever maps them and moves the data of their work requests within
// this process. Tests of everything above run on it anywhere; it knows nothing of
// package verbs.
//
// Work is done in the call that rings the doorbell, so tests are deterministic.
// What cannot be done yet, for want of a receive or of a peer, is tried again by
// the next doorbell, the next arming of a completion queue, or Kernel.Progress;
// each try counts as one retry.
package verbstest
