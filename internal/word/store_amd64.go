//go:build !race

package word

// StoreRelease32 publishes what was read and written before: who loads v from p
// atomically sees it done. The processor does not reorder stores, nor move loads
// behind them, nor does the compiler; atomic.StoreUint32 would wait for all of them
// in addition, which may cost as much as sending a message.
func StoreRelease32(p *uint32, v uint32) { *p = v }
