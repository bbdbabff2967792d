// Package verbs implements InfiniBand verbs in Go on the kernel's interface, without C libraries:
// devices, protection domains, memory regions and windows, completion queues and channels,
// queue pairs, shared receive queues, address handles and work requests.
//
// The names follow libibverbs: ibv_reg_mr is PD.RegMR, ibv_post_send is QP.PostSend,
// ibv_poll_cq is CQ.Poll. QP.Begin corresponds to ibv_wr_start: it writes requests straight into
// the queue, so that headers and payload are copied only once.
//
// # Files
//
//	subject                                        file
//
//	devices in sysfs and their ports               device.go, sysfs.go, open.go
//	open device, its objects, closing them         context.go, file.go
//	capabilities, port state, GID tables           query.go, caps.go, types.go
//	protection domains                             pd.go
//	memory regions, dma-buf, pinning               mr.go, pin_unsafe.go
//	memory windows                                 mw.go
//	queue pair: creation, receives, closing        qp.go
//	queue pair: RESET to INIT, INIT to RTS         qp_connect.go (QP.Init, QP.Connect)
//	queue pair: other states (SQD, SQE, ERR)       qp_modify.go (QP.Modify, QP.Query)
//	queue pair: attributes of each transition      qp_state.go
//	queue pair: multicast groups                   qp_mcast.go
//	send requests                                  post.go (QP.Begin), post_send.go, wr.go
//	address handles, paths to peers                ah.go, qp_connect.go (GIDEntry.To)
//	shared receive queues                          srq.go
//	completion queues: creation, polling, arming   cq.go
//	completions and their statuses                 wc.go
//	completion events                              channel.go, eventfd.go (the descriptor)
//	asynchronous events                            events.go, eventfd.go (the descriptor)
//	errors of calls                                errors.go, file.go (Error)
//	choice of the provider for a device            driver.go, providers.go
//	features that a provider lacks                 features.go
//	interface between verbs and providers          internal/provider
//	provider of soft-RoCE                          internal/rxe
//	provider of ConnectX adapters                  internal/mlx5
//	devices without a kernel, for tests            verbstest
//
// # Objects
//
// A Context is an open device; all other objects are made from it or from its children and
// are closed by their Close methods. An object that others still use cannot be closed:
// Close then returns an error that matches ucs.ErrBusy, and changes nothing. Context.Close
// closes all remaining objects. A Context that is not closed stays open, with its memory
// registered, until the process exits, because the device may be writing to the memory.
//
// # Goroutines
//
// Any goroutine may make and close objects and query their attributes. On one queue pair,
// one goroutine at a time may post sends and one may post receives; on one completion queue
// or shared receive queue, one goroutine at a time may poll or post. These paths allocate
// nothing, and do not wait for other goroutines, except for one that closes or resets a
// queue pair whose completions are polled.
//
// # Memory
//
// Memory that the device reads and writes must stay in place: PD.RegMR pins a buffer until
// MR.Close. A work request refers to memory by address and key, see MR.SGE. Posting copies a
// request and its inline data, which the caller may reuse when the call returns.
//
// # Errors
//
// errors.Is finds the ucs.Status and the syscall.Errno of a failed call. A failed work
// request reports its error in its completion, see WC.
//
// # Devices
//
// There are providers (user-space drivers) for soft-RoCE (rdma_rxe), which is tested on Linux 6.1,
// and for mlx5, the driver of ConnectX adapters. The mlx5 provider is checked on a model of adapter
// and kernel driver, against libmlx5 and with C programs, but this project has not tried it on
// hardware. On a machine with an adapter run make selftest DEVICE=mlx5_0 first, or a part of it,
// uct/ib/cmd/devinfo --selftest. The error for a device of another driver names that driver.
//
// # Environment
//
// VERBS_DEBUG=1 prints each system call to standard error. VERBS_BLUEFLAME=1 writes short
// requests to mlx5 devices into the adapter's registers, which saves the adapter a read
// from memory. It is off by default: it depends on how the kernel has mapped the registers,
// and this project has not tried it on hardware.
package verbs
