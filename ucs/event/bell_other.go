//go:build !linux || simulate

package event

// Bell is a member of a Set that any goroutine can make ready (Ring), to wake the goroutine that
// polls the Set or sleeps on it. It stays ready until Clear.
type Bell struct{ source }

// NewBell adds a bell to a set. Each Set.Poll that finds it ready calls h with Read.
func NewBell(set *Set, h Handler) (*Bell, error) {
	b := new(Bell)
	if err := set.add(&b.source, h); err != nil {
		return nil, err
	}
	return b, nil
}

// Ring makes the bell ready. Any goroutine may call it, but not after Close.
func (b *Bell) Ring() error {
	b.readyAt(0)
	return nil
}

// Clear makes the bell not ready until the next Ring.
func (b *Bell) Clear() { b.readyAt(never) }

// Close removes the bell from the set, which may already be closed. Only the goroutine that uses
// the set may call it.
func (b *Bell) Close() error {
	b.remove()
	return nil
}
