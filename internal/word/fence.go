package word

import "sync/atomic"

// Fence orders the accesses to memory before it and those after it, plain ones
// too, as other processes see them: a store is seen before a later load is done.
//
// A store of package atomic comes after everything before it, a load of it before
// everything behind it, and the two do not change places.
func Fence() {
	var x uint32
	atomic.StoreUint32(&x, 1)
	atomic.LoadUint32(&x)
}
