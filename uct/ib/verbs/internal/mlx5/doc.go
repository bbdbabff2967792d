// Package mlx5 is the provider for the kernel's driver mlx5_ib, of ConnectX and BlueField adapters:
// reliable and unreliable connections, datagrams and shared receive queues. Queues and doorbell
// records are memory of this process, which the adapter reads and writes. Stores to a mapped page
// of the adapter's registers announce sends. Posting, polling and arming need no system call.
//
//	subject                                         file
//
//	opening a device, its limits                    context.go
//	doorbell pages (UARs); doorbell records         uar.go; record.go
//	queue pairs; the layout of their memory         qp.go; size.go
//	sends; binds of memory windows                  send.go; umr.go
//	receives; shared receive queues                 recv.go; srq.go
//	completion queues; polling                      cq.go, spin.go; poll.go
//	completions of a destroyed or reset queue pair  drain.go
//	resizing a completion queue                     resize.go
//	address handles                                 ah.go
//	finding objects by the number in a completion   table.go
//	accessors of queues, records and registers      queue_unsafe.go, cqe_unsafe.go, bell_unsafe.go
//	stores and barriers whose order a device sees   order.go, endian.go
//
// The structs in the queues are in package abi. With the build tag mlx5trace, order_trace.go
// replaces order.go and shows each store and barrier to a test.
//
// Facts are from the kernel's headers and from rdma-core's providers/mlx5, whose files are named
// where they are used. To guard against bugs, the entries that a device writes are checked: a
// completion that does not match a posted request is skipped, and invalid contents of a completion
// do not cause accesses outside of the memory of the queues.
package mlx5
