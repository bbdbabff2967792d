package word

// StoreRelease32 publishes what was read and written before: who loads v from p
// atomically sees it done. The processor does not reorder stores, nor move loads
// behind them, nor does the compiler; atomic.StoreUint32 would wait for all of them
// in addition. It is for memory that is shared with another process or the kernel:
// goroutines know of each other by package atomic alone.
func StoreRelease32(p *uint32, v uint32) { *p = v }
