//go:build !amd64 && !arm64

package cpu

import "sync/atomic"

// ToDevice comes between stores to memory that a device reads and the store that tells
// it of them.
func ToDevice() { fence() }

// FlushWrites comes between stores to memory and those to a register of a device that
// may be combined, and behind these.
func FlushWrites() { fence() }

// FromDevice comes between the load that finds something written by a device, which is
// atomic, and the loads of what it has written before.
func FromDevice() { fence() }

// fence is an exchange, which is a barrier for everything.
func fence() {
	var x uint32
	atomic.AddUint32(&x, 1)
}

// StoreDevice64 is one store to a register of a device, which is aligned.
func StoreDevice64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

// CopyDevice64 copies 64 bytes to registers of a device, in ascending order.
func CopyDevice64(dst, src *[8]uint64) {
	for i := range src {
		atomic.StoreUint64(&dst[i], src[i])
	}
}
