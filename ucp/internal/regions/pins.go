package regions

import (
	"runtime"
	"sync"
)

// PinBoard keeps the pins of registered memory. The runtime ends a program that
// forgets a pin; a context that is forgotten with registrations must not do that,
// so the board, which does not refer to the context, undoes what is left.
type PinBoard struct {
	mu   sync.Mutex
	pins map[*runtime.Pinner]struct{}
}

// NewPinBoard makes an empty board.
func NewPinBoard() *PinBoard {
	b := &PinBoard{pins: make(map[*runtime.Pinner]struct{})}
	runtime.SetFinalizer(b, func(b *PinBoard) {
		for p := range b.pins {
			p.Unpin()
		}
	})
	return b
}

// Pin keeps b, which is not empty, where it is.
func (b *PinBoard) Pin(buf []byte) *runtime.Pinner {
	p := new(runtime.Pinner)
	p.Pin(&buf[0])
	b.mu.Lock()
	b.pins[p] = struct{}{}
	b.mu.Unlock()
	return p
}

// Unpin lets go of what Pin kept.
func (b *PinBoard) Unpin(p *runtime.Pinner) {
	b.mu.Lock()
	delete(b.pins, p)
	b.mu.Unlock()
	p.Unpin()
}
