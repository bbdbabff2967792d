//go:build linux

package mlx5

import "sync/atomic"

// table maps the 24-bit numbers in completions to objects. One goroutine at a time may call set;
// any goroutine may call find, with any number.
type table[T any] struct {
	parts [1 << 8]atomic.Pointer[part[T]]
}

type (
	part[T any] [1 << 8]atomic.Pointer[leaf[T]]
	leaf[T any] [1 << 8]atomic.Pointer[T]
)

func (t *table[T]) find(number uint32) *T {
	p := t.parts[number>>16&0xff].Load()
	if p == nil {
		return nil
	}
	l := p[number>>8&0xff].Load()
	if l == nil {
		return nil
	}
	return l[number&0xff].Load()
}

// set maps a number to object o. If o is nil, it removes the number.
func (t *table[T]) set(number uint32, o *T) {
	p := loadOrNew(&t.parts[number>>16&0xff])
	loadOrNew(&p[number>>8&0xff])[number&0xff].Store(o)
}

// loadOrNew returns the element that the pointer at refers to. If the pointer is nil, it allocates an
// element first.
func loadOrNew[T any](at *atomic.Pointer[T]) *T {
	p := at.Load()
	if p == nil {
		p = new(T)
		at.Store(p)
	}
	return p
}

// numbers allocates user indices. It reuses numbers that were given back before it takes new ones,
// so that the numbers stay low.
type numbers struct {
	next uint32   // the lowest number that was never allocated
	free []uint32 // free numbers below next
}

// maxNumber is greater than all allocated numbers. In the kernel's interface it means that a queue
// pair has no user index.
const maxNumber = 1<<24 - 1

// take allocates a number. It returns false if no number is left.
func (n *numbers) take() (uint32, bool) {
	if last := len(n.free) - 1; last >= 0 {
		v := n.free[last]
		n.free = n.free[:last]
		return v, true
	}
	if n.next == maxNumber {
		return 0, false
	}
	n.next++
	return n.next - 1, true
}

func (n *numbers) put(v uint32) { n.free = append(n.free, v) }
