// Package verbs is InfiniBand verbs in Go on the kernel's interface, without C libraries:
// devices, protection domains, memory regions and windows, completion queues and channels,
// queue pairs, shared receive queues, address handles and work requests.
//
// The names follow libibverbs: ibv_reg_mr is PD.RegMR, ibv_post_send is QP.PostSend,
// ibv_poll_cq is CQ.Poll; ibv_wr_start is QP.Begin, which writes requests straight into the
// queue, header and payload once.
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
// MR.Close. A work request refers to memory by address and key, see MR.SGE. Of a work
// request's own memory only inline data is read, and only while it is posted.
//
// # Errors
//
// errors.Is finds the ucs.Status and the syscall.Errno of a failed call. A failed work
// request reports its error in its completion, see WC.
//
// # Devices
//
// There are providers for soft-RoCE (rdma_rxe), which is tested on Linux 6.1, and for mlx5,
// the driver of ConnectX adapters. The mlx5 provider is checked on a model of adapter and
// kernel driver, against libmlx5 and with C programs, but has not been tried on hardware by
// this project. On a card run make selftest DEVICE=mlx5_0 first, or cmd/devinfo --selftest,
// which is a part of it. Devices of other drivers are refused with the driver's name.
//
// # Environment
//
// VERBS_DEBUG=1 prints each system call to standard error. VERBS_BLUEFLAME=1 writes short
// requests to mlx5 devices into the adapter's registers, which saves the adapter a read
// from memory. It is off by default: it depends on how the kernel has mapped the registers,
// and has not been tried on hardware by this project.
package verbs
