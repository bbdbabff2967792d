package regions

import (
	"runtime"
	"sync"
)

// PinBoard holds the pins of registered memory. The Go runtime ends a program in which a
// runtime.Pinner becomes unreachable without Unpin. To avoid that for a context that becomes
// unreachable while memory is registered, a finalizer of the PinBoard, which does not refer to the
// context, removes the remaining pins.
type PinBoard struct {
	mu   sync.Mutex
	pins map[*runtime.Pinner]struct{}
}

// NewPinBoard makes an empty PinBoard.
func NewPinBoard() *PinBoard {
	b := &PinBoard{pins: make(map[*runtime.Pinner]struct{})}
	runtime.SetFinalizer(b, func(b *PinBoard) {
		for p := range b.pins {
			p.Unpin()
		}
	})
	return b
}

// Pin pins buf, which must not be empty, until Unpin is called with the result.
func (b *PinBoard) Pin(buf []byte) *runtime.Pinner {
	p := new(runtime.Pinner)
	p.Pin(&buf[0])
	b.mu.Lock()
	b.pins[p] = struct{}{}
	b.mu.Unlock()
	return p
}

// Unpin removes a pin that Pin has returned.
func (b *PinBoard) Unpin(p *runtime.Pinner) {
	b.mu.Lock()
	delete(b.pins, p)
	b.mu.Unlock()
	p.Unpin()
}
