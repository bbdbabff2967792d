package word

import "sync/atomic"

// Fence orders the memory accesses before it and after it, plain ones too, as other processes see
// them: a store before the fence is visible before a later load executes.
//
// An atomic store comes after all accesses before it, an atomic load comes before all accesses
// after it, and the two are not reordered.
func Fence() {
	var x uint32
	atomic.StoreUint32(&x, 1)
	atomic.LoadUint32(&x)
}
