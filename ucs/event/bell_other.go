//go:build !linux

package event

// Bell is how other goroutines reach who polls a Set or sleeps on it. Once rung, it is
// ready until it is cleared.
type Bell struct{ source }

// NewBell puts a bell into a set. Its handler is told, with Read, in each Poll that
// finds it rung.
func NewBell(set *Set, h Handler) (*Bell, error) {
	b := new(Bell)
	set.add(&b.source, h)
	return b, nil
}

// Ring may be called by any goroutine, but not after Close.
func (b *Bell) Ring() error {
	b.readyAt(0)
	return nil
}

// Clear ends readiness until the next Ring.
func (b *Bell) Clear() { b.readyAt(never) }

// Close takes the bell out of the set, which may be closed already. It belongs to the
// set's goroutine.
func (b *Bell) Close() error {
	b.remove()
	return nil
}
