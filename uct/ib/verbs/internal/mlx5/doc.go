// Package mlx5 is the provider of the kernel's driver mlx5_ib, of ConnectX and
// BlueField adapters: reliable and unreliable connections, datagrams and shared receive
// queues. Queues and their records are memory of this process, which the adapter reads
// and writes; it is told of sends by stores to a mapped page of its registers. Posting,
// polling and arming need no system call.
//
// context.go opens a device, uar.go has its doorbell pages, record.go the records.
// qp.go, size.go and send.go are queue pairs and their sends, umr.go windows of memory,
// recv.go and srq.go receives. cq.go and poll.go are completion queues; drain.go takes out
// of them, to be polled, what is of a queue pair that is gone, resize.go moves them. ah.go is addresses.
// What lies in the queues is of package abi; queue_unsafe.go and bell_unsafe.go find it.
// order.go has every store and barrier whose order a device sees; order_trace.go, which
// takes its place with the build tag mlx5trace, shows them to a test.
//
// Facts are from the kernel's headers and from rdma-core's providers/mlx5, whose files
// are named where they are used. Checks of what a device writes are against mistakes: a
// completion that does not fit what was posted is passed over, and whatever it holds,
// no memory is touched that is not of its queue.
package mlx5
