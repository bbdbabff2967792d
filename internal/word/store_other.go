//go:build !amd64 || race

package word

import "sync/atomic"

// StoreRelease32 is a store with release semantics: a reader that atomically loads v from p also
// sees all earlier accesses of this goroutine.
func StoreRelease32(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
