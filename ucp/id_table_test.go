package ucp

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIDTableModel compares with a map, and asks for every id there ever was.
func TestIDTableModel(t *testing.T) {
	type object struct{ _ int }
	rapid.Check(t, func(t *rapid.T) {
		var table idTable[object]
		live := make(map[uint64]*object)
		var ever []uint64
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				obj := new(object)
				id := table.put(obj)
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
				if got := table.remove(id); got != live[id] {
					t.Fatalf("remove(%#x) = %p, want %p", id, got, live[id])
				}
				delete(live, id)
			},
			"each": func(t *rapid.T) {
				seen := make(map[*object]bool)
				table.each(func(o *object) { seen[o] = true })
				if len(seen) != len(live) {
					t.Fatalf("each found %d objects, want %d", len(seen), len(live))
				}
			},
			"": func(t *rapid.T) {
				if table.len() != len(live) {
					t.Fatalf("len %d, want %d", table.len(), len(live))
				}
				for _, id := range ever {
					if got := table.get(id); got != live[id] {
						t.Fatalf("get(%#x) = %p, want %p", id, got, live[id])
					}
				}
			},
		})
	})
}

// TestIDTableForeign: numbers that were never given out find nothing.
func TestIDTableForeign(t *testing.T) {
	var table idTable[int]
	id := table.put(new(int))
	for _, bad := range []uint64{0, 1, id - 1, id ^ 2, id ^ 1<<63, id ^ 1<<(idSlotBits+1), ^uint64(0)} {
		if table.get(bad) != nil || table.remove(bad) != nil {
			t.Errorf("id %#x was found; the only one is %#x", bad, id)
		}
	}
	if table.get(id) == nil {
		t.Error("the id itself was lost")
	}
}

// TestIDTableEachRemoves: the function may end the ids it is shown.
func TestIDTableEachRemoves(t *testing.T) {
	var table idTable[uint64]
	for range 10 {
		id := new(uint64)
		*id = table.put(id)
	}
	table.each(func(id *uint64) { table.remove(*id) })
	if table.len() != 0 {
		t.Errorf("%d ids are left", table.len())
	}
}

// TestIDTableUnguessable: a peer that knows an id of a slot cannot tell the next
// one.
func TestIDTableUnguessable(t *testing.T) {
	var table idTable[int]
	steps := make(map[uint64]bool)
	last := table.put(new(int))
	for range 16 {
		table.remove(last)
		id := table.put(new(int))
		steps[id-last] = true
		last = id
	}
	if len(steps) == 1 {
		t.Errorf("ids of one slot follow each other in steps of %v", steps)
	}
}
