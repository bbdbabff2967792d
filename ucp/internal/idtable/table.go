// Package idtable gives objects ids that peers may be told and send back.
package idtable

import (
	"math/rand/v2"
	"slices"
)

// Table gives objects the 64-bit ids that peers send back. Ids are odd, like
// C UCX's indirect ids, and hold a slot number and a generation: an id that was
// released, or was never given out, finds nothing. Generations are random, so a
// peer cannot guess an id it was not told, not even from its predecessors, and a
// restarted process does not honor the ids of the one before. The zero value is empty.
// A table belongs to one goroutine at a time.
//
//	bit 0      always set
//	bits 1-24  slot
//	bits 25-63 generation of the slot; where the table has a mark that is in bits 56-63
type Table[T any] struct {
	// Mark, unless 0, is the top byte of all ids: by it others know whose they are. It is
	// set before the first id is given out.
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
	s.obj, s.gen = obj, rand.Uint64()>>(64-genBits)
	if t.Mark != 0 {
		s.gen = s.gen>>markBits | uint64(t.Mark)<<(genBits-markBits)
	}
	return s.gen<<(slotBits+1) | uint64(i)<<1 | 1
}

// Get returns the object of an id, nil for an id that is not in use.
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

// Remove ends the life of an id and returns its object, nil when the id was not
// in use.
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

// Len is the number of ids in use.
func (t *Table[T]) Len() int { return len(t.slots) - len(t.free) }

// Each calls fn for every object. fn may remove ids.
func (t *Table[T]) Each(fn func(*T)) {
	for i := range t.slots {
		if obj := t.slots[i].obj; obj != nil {
			fn(obj)
		}
	}
}

// Any reports whether fn says so of an object.
func (t *Table[T]) Any(fn func(*T) bool) bool {
	return slices.ContainsFunc(t.slots, func(s slot[T]) bool { return s.obj != nil && fn(s.obj) })
}

// Some calls fn for at most n objects, from slot from on and around, each once,
// and returns the slot to go on with. fn may remove ids.
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
