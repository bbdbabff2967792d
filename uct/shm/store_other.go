//go:build !amd64

package shm

import "sync/atomic"

// storeRelease publishes what was written before: whoever loads v from p
// atomically sees that too.
func storeRelease(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
