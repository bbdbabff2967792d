// Package verbs is InfiniBand verbs in Go on the kernel's interface: devices,
// protection domains, memory regions and windows, completion queues and channels,
// queue pairs, shared receive queues, address handles and work requests, without C
// libraries.
// Who knows ibv_* finds everything under its name: ibv_reg_mr is PD.RegMR,
// ibv_post_send is QP.PostSend, ibv_poll_cq is CQ.Poll; ibv_wr_start is QP.Begin, which
// writes requests straight into the queue, header and payload once.
//
// # Objects
//
// A Context is an open device; everything else is made from it or from its
// children and is closed by its Close method. What others still use cannot be
// closed: Close then returns an error that is ucs.ErrBusy and changes nothing.
// Context.Close closes all that is left. A Context that is not closed stays open,
// with its memory registered, as long as the process lives: the device may be
// writing to it.
//
// # Goroutines
//
// Any goroutine may make and close objects and ask for their attributes. Of one
// queue pair, one goroutine at a time posts sends and one posts receives; of one
// completion queue or shared receive queue, one goroutine at a time polls or
// posts. Nothing is allocated on these paths, and nobody waits for another goroutine,
// unless that closes or resets a queue pair whose completions are polled.
//
// # Memory
//
// Memory that the device reads and writes must stay in place: PD.RegMR pins what
// it is given until MR.Close. A work request names it by address and key, see
// MR.SGE; nothing in a work request but inline data is kept or looked at after it
// is posted.
//
// # Errors
//
// errors.Is finds the ucs.Status and the syscall.Errno of a failed call. A work
// request that fails says so in its completion, see WC.
//
// # Devices
//
// There are providers for soft-RoCE (rdma_rxe), which is tested on Linux 6.1, and for mlx5, of
// ConnectX adapters. The latter is checked on a model of adapter and kernel driver, against
// libmlx5 and with C programs, and never on hardware by us: make selftest DEVICE=mlx5_0 is
// what to run first on a card, or cmd/devinfo --selftest, which is a part of it. Other
// drivers are refused by name.
//
// # Environment
//
// VERBS_DEBUG=1 prints each call of the kernel to standard error. VERBS_BLUEFLAME=1 has
// short requests to mlx5 devices written into the adapter's registers, which saves it
// reading them from memory. It is off by default: it depends on how the kernel has mapped
// the registers, and has not been tried on hardware by us.
package verbs
