//go:build amd64 || arm64

package cpu

// Barriers order the accesses of a program and of a device to the same memory. Package atomic does
// not promise that order: it is about processors. Each barrier here corresponds to one in
// rdma-core's util/udma_barrier.h.

// FlushWrites is the barrier between stores to memory and stores to a write-combining register of a
// device, and after the stores to the register: it leaves no store in a buffer of this processor.
func FlushWrites()

// StoreDevice64 makes one store to an aligned register of a device. An exchange, which
// atomic.StoreUint64 is on amd64, would also read the register.
//
//go:noescape
func StoreDevice64(p *uint64, v uint64)

// CopyDevice64 copies 64 bytes to registers of a device, in ascending order.
//
//go:noescape
func CopyDevice64(dst, src *[8]uint64)
