//go:build !race

package word

// StoreRelease32 is a store with release semantics: a reader that atomically loads v from p also
// sees all earlier accesses of this goroutine. Neither the processor nor the compiler reorders
// stores or moves loads behind them; atomic.StoreUint32 would also wait until all earlier stores
// are visible, which may cost as much as sending a message.
func StoreRelease32(p *uint32, v uint32) { *p = v }
