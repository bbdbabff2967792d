package idtable

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// TestTableModel compares the table with a map, for every id that was ever handed out.
func TestTableModel(t *testing.T) {
	type object struct{ _ int }
	rapid.Check(t, func(t *rapid.T) {
		var table Table[object]
		live := make(map[uint64]*object)
		var ever []uint64
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				obj := new(object)
				id := table.Put(obj)
				if id&1 == 0 || live[id] != nil {
					t.Fatalf("id %#x is even or in use", id)
				}
				live[id] = obj
				ever = append(ever, id)
			},
			"remove": func(t *rapid.T) {
				if len(ever) == 0 {
					t.Skip("no ids")
				}
				id := rapid.SampledFrom(ever).Draw(t, "id")
				if got := table.Remove(id); got != live[id] {
					t.Fatalf("remove(%#x) = %p, want %p", id, got, live[id])
				}
				delete(live, id)
			},
			"each": func(t *rapid.T) {
				seen := make(map[*object]bool)
				table.Each(func(o *object) { seen[o] = true })
				if len(seen) != len(live) {
					t.Fatalf("each found %d objects, want %d", len(seen), len(live))
				}
			},
			"": func(t *rapid.T) {
				if table.Len() != len(live) {
					t.Fatalf("len %d, want %d", table.Len(), len(live))
				}
				for _, id := range ever {
					if got := table.Get(id); got != live[id] {
						t.Fatalf("get(%#x) = %p, want %p", id, got, live[id])
					}
				}
			},
		})
	})
}

// TestTableForeign checks that ids that were never handed out find nothing.
func TestTableForeign(t *testing.T) {
	var table Table[int]
	id := table.Put(new(int))
	for _, bad := range []uint64{0, 1, id - 1, id ^ 2, id ^ 1<<63, id ^ 1<<(slotBits+1), ^uint64(0)} {
		if table.Get(bad) != nil || table.Remove(bad) != nil {
			t.Errorf("id %#x was found; the only one is %#x", bad, id)
		}
	}
	if table.Get(id) == nil {
		t.Error("the id itself was lost")
	}
}

// TestTableEachRemoves checks that the function passed to Each may remove the object it gets.
func TestTableEachRemoves(t *testing.T) {
	var table Table[uint64]
	for range 10 {
		id := new(uint64)
		*id = table.Put(id)
	}
	table.Each(func(id *uint64) { table.Remove(*id) })
	if table.Len() != 0 {
		t.Errorf("%d ids are left", table.Len())
	}
}

// TestTableUnguessable checks that the next id of a slot does not follow from the ids before.
func TestTableUnguessable(t *testing.T) {
	var table Table[int]
	steps := make(map[uint64]bool)
	last := table.Put(new(int))
	for range 16 {
		table.Remove(last)
		id := table.Put(new(int))
		steps[id-last] = true
		last = id
	}
	if len(steps) == 1 {
		t.Errorf("ids of one slot follow each other in steps of %v", steps)
	}
}

// TestSlot checks that a slot of the table is little larger than a pointer.
func TestSlot(t *testing.T) {
	if n, want := unsafe.Sizeof(slot[int]{}), 8+unsafe.Sizeof(uintptr(0)); n != want {
		t.Errorf("a slot takes %d bytes, want %d", n, want)
	}
}
