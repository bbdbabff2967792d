package ledger

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

func sourceNumber(n int) Source {
	return SourceOf(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), -1)
}

// TestBacklog checks the rule of the backlog after every step of many, by counting all waiting
// requests anew.
func TestBacklog(t *testing.T) {
	for most := range 9 {
		rng := rand.New(rand.NewPCG(uint64(most), 1))
		b, model := NewBacklog[int](most), make(map[int]Source)
		for k := range 3000 {
			if rng.IntN(3) == 0 && len(model) > 0 {
				r := slices.Sorted(maps.Keys(model))[rng.IntN(len(model))]
				delete(model, r)
				b.Remove(r)
				b.Remove(r) // no longer in the backlog
			}
			source := sourceNumber(rng.IntN(1 + rng.IntN(4)))
			counts := make(map[Source]int)
			highest := 0
			for _, s := range model {
				counts[s]++
				highest = max(highest, counts[s])
			}
			room := len(model) < most || highest >= counts[source]+2
			if got := b.HasRoom(source); got != room {
				t.Fatalf("%d of %d wait: room %v, want %v", len(model), most, got, room)
			}
			r, added := b.Add(k+1, source)
			crowded := r != 0
			if added != room || crowded != (room && len(model) >= most) || crowded && counts[model[r]] != highest {
				t.Fatalf("%d of %d wait, the source with most has %d: added %v, %v makes room, who has %d", len(model), most, highest, added, r, counts[model[r]])
			}
			if crowded {
				delete(model, r)
			}
			if added {
				model[k+1] = source
			}
			if b.Len() != len(model) || b.Len() > most || !equal(model, b.list) {
				t.Fatalf("%v wait, want %v", b.list, model)
			}
		}
		if n, drained := b.Len(), b.Drain(); len(drained) != n || b.Len() != 0 || len(b.waiting) != 0 || b.highest != 0 {
			t.Errorf("something is left: %+v", b)
		}
	}
}

// TestBacklogOfOne: in a backlog with room for one, the first request stays.
func TestBacklogOfOne(t *testing.T) {
	b := NewBacklog[int](1)
	b.Add(1, sourceNumber(1))
	if b.HasRoom(sourceNumber(1)) || b.HasRoom(sourceNumber(2)) {
		t.Error("two wait where there is room for one")
	}
}

// BenchmarkBacklogRefuses measures a refusal.
func BenchmarkBacklogRefuses(b *testing.B) {
	l := NewBacklog[int](1024)
	for k := range 1024 {
		l.Add(k, sourceNumber(k))
	}
	b.ReportAllocs()
	for b.Loop() {
		if l.HasRoom(sourceNumber(7)) {
			b.Fatal("room")
		}
	}
}

// equal reports whether a backlog has the requests of the model.
func equal(model map[int]Source, list map[int]request) bool {
	return maps.EqualFunc(model, list, func(s Source, r request) bool { return s == r.source })
}
