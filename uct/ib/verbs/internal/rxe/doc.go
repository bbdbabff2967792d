// Package rxe is the provider of soft-RoCE, rdma_rxe: queues are rings that the
// kernel makes and both sides map. Nothing but sending and arming needs a system
// call.
//
// ring.go has what all rings do; send.go, recv.go and poll.go are the three uses of
// one; bell.go tells the kernel of sends. What lies in a slot is of package abi, and
// found by the accessors of slot_unsafe.go.
package rxe
