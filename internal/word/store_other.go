//go:build !amd64 || race

package word

import "sync/atomic"

// StoreRelease32 publishes what was read and written before: who loads v from p
// atomically sees it done.
func StoreRelease32(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
