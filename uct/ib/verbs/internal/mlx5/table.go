//go:build linux

package mlx5

import "sync/atomic"

// table finds objects by numbers of 24 bits, which completions name. Whatever number is
// asked for, it is one of those that are in it or nil. Changes are made by one goroutine
// at a time; any may look.
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

// set puts an object in, nil takes it out.
func (t *table[T]) set(number uint32, o *T) {
	p := made(&t.parts[number>>16&0xff])
	made(&p[number>>8&0xff])[number&0xff].Store(o)
}

// made is what is there, or new.
func made[T any](at *atomic.Pointer[T]) *T {
	p := at.Load()
	if p == nil {
		p = new(T)
		at.Store(p)
	}
	return p
}

// numbers gives out low numbers: first those that came back.
type numbers struct {
	next uint32   // none from it on was given out
	free []uint32 // below next
}

// maxNumber is above what is given out: the number of all ones means none.
const maxNumber = 1<<24 - 1

// take returns a number, or false if there is none left.
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
