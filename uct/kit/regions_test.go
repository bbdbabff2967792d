package kit

import (
	"errors"
	"math"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestRegionsModel compares lookups with a linear search of a list.
func TestRegionsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arena := make([]byte, 256)
		base := addressOf(arena)
		var table Regions
		type entry struct {
			region  *Region
			from, n int
		}
		var model []entry
		accesses := []uct.Access{uct.AccessRemotePut, uct.AccessRemoteGet, uct.AccessRemote, uct.AccessAll}
		access := rapid.SampledFrom(accesses)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				from := rapid.IntRange(0, len(arena)).Draw(t, "from")
				n := rapid.IntRange(0, len(arena)-from).Draw(t, "n")
				r := table.Add(arena[from:from+n], access.Draw(t, "access"))
				model = append(model, entry{r, from, n})
			},
			"remove": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("empty")
				}
				k := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				if err := table.Remove(model[k].region); err != nil {
					t.Fatalf("removing: %v", err)
				}
				if err := table.Remove(model[k].region); !errors.Is(err, ucs.ErrInvalidParam) {
					t.Fatalf("removing twice: %v", err)
				}
				model = append(model[:k], model[k+1:]...)
			},
			"lookup": func(t *rapid.T) {
				from := rapid.IntRange(0, len(arena)-1).Draw(t, "from")
				n := rapid.IntRange(1, len(arena)-from).Draw(t, "n")
				want := access.Draw(t, "want")
				covered := false
				for _, e := range model {
					if e.from <= from && from+n <= e.from+e.n && e.region.Access()&want == want {
						covered = true
					}
				}
				b, ok := table.Lookup(base+uint64(from), n, want)
				if ok != covered {
					t.Fatalf("lookup of %d bytes at %d: %v, want %v", n, from, ok, covered)
				}
				if ok && (len(b) != n || cap(b) != n || &b[0] != &arena[from]) {
					t.Fatalf("lookup of %d bytes at %d gives %d bytes of something else", n, from, len(b))
				}
			},
			"": func(t *rapid.T) {
				if table.Len() != len(model) {
					t.Fatalf("%d regions, want %d", table.Len(), len(model))
				}
			},
		})
	})
}

func TestRegionsEdges(t *testing.T) {
	var table, other Regions
	buf := make([]byte, 64)
	r := table.Add(buf, uct.AccessAll)
	for _, c := range []struct {
		name string
		addr uint64
		n    int
	}{
		{"address 0", 0, 1},
		{"before", r.Addr() - 1, 1},
		{"behind", r.Addr() + 64, 1},
		{"over the start", r.Addr() - 1, 2},
		{"over the end", r.Addr() + 63, 2},
		{"too long", r.Addr(), 65},
		{"around the end of memory", math.MaxUint64, 2},
		{"around everything", r.Addr(), math.MaxInt},
		{"negative", r.Addr() + 8, -4},
	} {
		if b, ok := table.Lookup(c.addr, c.n, uct.AccessRemotePut); ok {
			t.Errorf("%s: found %d bytes", c.name, len(b))
		}
	}
	if err := other.Remove(r); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("removed from another table: %v", err)
	}
	if &r.Bytes()[0] != &buf[0] || len(r.Bytes()) != 64 {
		t.Error("Bytes is not the memory that was added")
	}
}

// TestRegionsConcurrent: lookups work while regions are added and removed.
func TestRegionsConcurrent(t *testing.T) {
	var table Regions
	buf := make([]byte, 4096)
	fixed := table.Add(buf, uct.AccessAll)
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 500 {
				r := table.Add(buf[g*100+i:g*100+i+50], uct.AccessAll)
				if err := table.Remove(r); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for range 1000 {
		if _, ok := table.Lookup(fixed.Addr()+100, 3000, uct.AccessRemoteGet); !ok {
			t.Error("a region that stays was not found")
			break
		}
	}
	wg.Wait()
	if table.Len() != 1 {
		t.Errorf("%d regions left, want 1", table.Len())
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	var table Regions
	buf := make([]byte, 4096)
	for i := range 64 {
		table.Add(buf[i:i+64], uct.AccessAll)
	}
	addr := addressOf(buf)
	if n := testing.AllocsPerRun(100, func() { table.Lookup(addr+10, 8, uct.AccessRemotePut) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	var table Regions
	buf := make([]byte, 1<<16)
	for i := 0; i < len(buf); i += 1024 {
		table.Add(buf[i:i+1024], uct.AccessAll)
	}
	addr := addressOf(buf) + 40000
	b.ReportAllocs()
	for b.Loop() {
		table.Lookup(addr, 8, uct.AccessRemotePut)
	}
}
