//go:build !amd64 && !arm64

package cpu

import "sync/atomic"

// ToDevice is the barrier between stores to memory that a device reads and the store that notifies
// the device.
func ToDevice() { fence() }

// FlushWrites is the barrier between stores to memory and stores to a write-combining register of a
// device, and after the stores to the register.
func FlushWrites() { fence() }

// FromDevice is the barrier between the atomic load that finds something written by a device and
// the loads of data that the device has written before.
func FromDevice() { fence() }

// fence is a full barrier, by an atomic addition.
func fence() {
	var x uint32
	atomic.AddUint32(&x, 1)
}

// StoreDevice64 makes one store to an aligned register of a device.
func StoreDevice64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

// CopyDevice64 copies 64 bytes to registers of a device, in ascending order.
func CopyDevice64(dst, src *[8]uint64) {
	for i := range src {
		atomic.StoreUint64(&dst[i], src[i])
	}
}
