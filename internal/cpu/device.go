//go:build amd64 || arm64

package cpu

// What a program and a device do to the same memory is ordered by barriers, which
// package atomic does not promise: it is about processors. They have the places that
// rdma-core's util/udma_barrier.h has.

// FlushWrites comes between stores to memory and those to a register of a device that
// may be combined, and behind these: nothing stays in a buffer of this processor.
func FlushWrites()

// StoreDevice64 is one store to a register of a device, which is aligned. An exchange,
// which atomic.StoreUint64 is on amd64, would read the register, too.
//
//go:noescape
func StoreDevice64(p *uint64, v uint64)

// CopyDevice64 copies 64 bytes to registers of a device, in ascending order.
//
//go:noescape
func CopyDevice64(dst, src *[8]uint64)
