//go:build !amd64

package word

import "sync/atomic"

// StoreRelease32 publishes what was read and written before: who loads v from p
// atomically sees it done. It is for memory that is shared with another process or
// the kernel: goroutines know of each other by package atomic alone.
func StoreRelease32(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
