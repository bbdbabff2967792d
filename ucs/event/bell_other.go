//go:build !linux

package event

// Bell lets other goroutines wake a goroutine that polls a Set or sleeps on it. Once rung,
// it is ready until it is cleared.
type Bell struct{ source }

// NewBell adds a bell to a set. Each Poll that finds it rung calls its handler with Read.
func NewBell(set *Set, h Handler) (*Bell, error) {
	b := new(Bell)
	set.add(&b.source, h)
	return b, nil
}

// Ring makes the bell ready. Any goroutine may call it, but not after Close.
func (b *Bell) Ring() error {
	b.readyAt(0)
	return nil
}

// Clear makes the bell not ready until the next Ring.
func (b *Bell) Clear() { b.readyAt(never) }

// Close removes the bell from the set, which may already be closed. It belongs to the set's
// goroutine.
func (b *Bell) Close() error {
	b.remove()
	return nil
}
