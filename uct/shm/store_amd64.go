package shm

// storeRelease publishes what was written before: whoever loads v from p
// atomically sees that too. The processor does not reorder stores, nor does the
// compiler move one before another; atomic.StoreUint32 would wait for all of
// them in addition, which costs as much as the rest of a send.
func storeRelease(p *uint32, v uint32) { *p = v }

// storeFence lets what was written before be seen before what is written
// afterwards, by whatever means. The processor does that by itself.
func storeFence() {}
