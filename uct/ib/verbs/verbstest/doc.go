// Package verbstest is RDMA devices without a kernel: they answer the requests of
// package uverbs by the same table, as the soft-RoCE driver rdma_rxe does or mlx5_ib
// (Config.MLX5), share queues with programs and move the data of their work requests. Tests of everything above run on them anywhere; it knows nothing of
// package verbs.
//
// New is one device, whose contexts reach each other. A Fabric has several, with the
// ports and addresses that their Config names: packets go to the device that has the
// address, and arrive where a real one would take them, by address, partition, queue
// pair, key and size. What a device has less of than rdma_rxe, and what it does otherwise,
// is in its Config too.
//
// Work of rdma_rxe is done in the call that rings the doorbell, so tests are
// deterministic. Doorbells of mlx5 ring without a call: they are looked for in Step,
// Progress and Run, and with every other call.
// What cannot be done yet, for want of a receive or of a peer, is tried again by
// the next doorbell in the network, the next arming of a completion queue, or
// Progress; each try counts as one retry. Fabric.SetWork has it done in steps instead,
// so that sends stay outstanding, and Fabric.Run by a goroutine, for programs that sleep.
// Nothing is allocated for a message, so that tests of what sends can say that they
// allocate nothing.
//
// A Hook on the network loses messages, doubles them, holds them back, and more; Random
// and others are hooks for common cases. Links go down (Kernel.SetLink), processes die
// (Process), devices are removed (Kernel.Remove).
//
// Programs of which this process is not the owner use the devices too (Kernel.OpenIn):
// what they name is read and written in their memory.
//
// From below: space.go and piece.go have memory, port.go addresses, access.go what work
// requests name; receive.go and arrive.go are the receiving end, faults.go what happens
// on the way, connected.go and datagram.go the sending end; scheduler.go says whose turn
// it is; commands.go and methods.go answer calls. What depends on whose device it is lies
// behind the interfaces of driver.go: files that begin with rxe have it for rdma_rxe, with
// mlx5 for mlx5_ib, which also hold every entry, record and doorbell to the rules of the
// interface (Kernel.Broken).
package verbstest
