// Package idtable assigns ids to objects. The ids are sent to peers, which send them back to refer
// to the objects.
package idtable

import (
	"slices"

	"github.com/ucx-go/ucx/internal/platform"
)

// Table maps 64-bit ids to objects. Ids are odd, like C UCX's indirect ids, and consist of a slot
// number and a generation. An id that was released, or was never assigned, has no object.
// Generations are random, so a peer cannot guess an id that was not sent to it, not even from
// earlier ids, and a restarted process does not accept the ids of its predecessor. One goroutine at
// a time may use a Table. The zero value is empty.
//
//	bit 0      always set
//	bits 1-24  slot
//	bits 25-63 generation of the slot; bits 56-63 contain the mark if the table has one
type Table[T any] struct {
	// Mark, unless 0, is the top byte of all ids. Peers recognize by it the ids that this library
	// has assigned. It is set before the first Put.
	Mark uint8

	slots []slot[T]
	free  []uint32
}

type slot[T any] struct {
	obj *T
	gen uint64
}

const (
	slotBits = 24
	genBits  = 64 - 1 - slotBits
	markBits = 8
	maxIDs   = 1 << slotBits
)

// Put stores obj and returns its id; 0 when the table is full.
func (t *Table[T]) Put(obj *T) uint64 {
	var i uint32
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		if len(t.slots) == maxIDs {
			return 0
		}
		i = uint32(len(t.slots))
		t.slots = append(t.slots, slot[T]{})
	}
	s := &t.slots[i]
	s.obj, s.gen = obj, platform.Uint64()>>(64-genBits)
	if t.Mark != 0 {
		s.gen = s.gen>>markBits | uint64(t.Mark)<<(genBits-markBits)
	}
	return s.gen<<(slotBits+1) | uint64(i)<<1 | 1
}

// Get returns the object of an id, nil if the id is not in use.
func (t *Table[T]) Get(id uint64) *T {
	i := id >> 1 & (maxIDs - 1)
	if id&1 == 0 || i >= uint64(len(t.slots)) {
		return nil
	}
	if s := &t.slots[i]; s.gen == id>>(slotBits+1) {
		return s.obj
	}
	return nil
}

// Remove releases an id and returns its object, nil if the id was not in use.
func (t *Table[T]) Remove(id uint64) *T {
	obj := t.Get(id)
	if obj == nil {
		return nil
	}
	i := uint32(id >> 1 & (maxIDs - 1))
	t.slots[i].obj = nil
	t.free = append(t.free, i)
	return obj
}

// Len returns the number of ids in use.
func (t *Table[T]) Len() int { return len(t.slots) - len(t.free) }

// Each calls fn for every object. fn may remove ids.
func (t *Table[T]) Each(fn func(*T)) {
	for i := range t.slots {
		if obj := t.slots[i].obj; obj != nil {
			fn(obj)
		}
	}
}

// Any reports whether fn returns true for any object.
func (t *Table[T]) Any(fn func(*T) bool) bool {
	return slices.ContainsFunc(t.slots, func(s slot[T]) bool { return s.obj != nil && fn(s.obj) })
}

// Some calls fn for at most n objects, each at most once. It starts at slot from, continues with
// the first slot after the last one, and returns the slot to start with next time. fn may remove
// ids.
func (t *Table[T]) Some(from, n int, fn func(*T)) int {
	for range len(t.slots) {
		if n == 0 {
			break
		}
		if from >= len(t.slots) {
			from = 0
		}
		if obj := t.slots[from].obj; obj != nil {
			fn(obj)
			n--
		}
		from++
	}
	return from
}
