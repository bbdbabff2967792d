// Package verbstest simulates RDMA devices without a kernel. The devices answer the requests of
// package uverbs by the same table as the kernel, and behave like devices of the soft-RoCE driver
// rdma_rxe or of mlx5_ib (Config.MLX5): they share queues with programs and move the data of the
// programs' work requests. The layers above uverbs can be tested with them on any machine. The
// package does not depend on package verbs.
//
// New returns a single device, whose contexts reach each other. A Fabric has several devices, with
// the ports and addresses that their Config names. A packet goes to the device that has the
// destination address and is accepted under the conditions of a real device: address, partition,
// queue pair, key and size must match. A device's Config also holds lower limits than those of
// rdma_rxe and other differences from it.
//
// An rdma_rxe device executes work requests in the call that rings the doorbell, so tests are
// deterministic. Doorbells of mlx5 ring without a call: Step, Progress, Run and every call to the
// device check for them. A work request that cannot be executed yet, because the receive or the
// peer is missing, is retried by the next doorbell in the network, the next arming of a completion
// queue, or Progress; each try counts as one retry. Fabric.SetWork defers the execution to explicit
// steps, so that sends stay outstanding; Fabric.Run moves it to a goroutine, for programs that
// sleep. A message causes no allocation, so tests of allocation-free sends can run on these
// devices.
//
// A Hook on the network drops, duplicates or delays messages and injects other faults; Random and
// other functions return hooks for common cases. Links go down (Kernel.SetLink), processes die
// (Process), devices are removed (Kernel.Remove).
//
// Programs in other processes can use the devices too (Kernel.OpenIn): the addresses that they pass
// are read and written in their own memory.
//
// The files, from the bottom up: space.go and piece.go access memory, port.go resolves addresses,
// access.go resolves the memory of work requests; receive.go is the receive side,
// faults.go injects faults, connected.go is the send side; scheduler.go orders the
// queue pairs; commands.go and methods.go answer calls. The interfaces of driver.go separate the
// parts that differ between drivers: files that begin with rxe implement them for rdma_rxe, files
// that begin with mlx5 for mlx5_ib. The mlx5 files also check every queue entry, doorbell record
// and doorbell against the rules of the interface (Kernel.Broken).
package verbstest
