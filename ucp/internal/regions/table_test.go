package regions

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// TestLife checks that a region is freed once, when it is closed and no longer in use.
func TestLife(t *testing.T) {
	freed := 0
	r := &Region{Free: func() { freed++ }}
	for range 2 {
		if !r.Acquire() {
			t.Fatal("an open region cannot be acquired")
		}
	}
	r.Release()
	r.Close()
	if freed != 0 || r.Acquire() {
		t.Errorf("freed %d times while in use", freed)
	}
	r.Release()
	if freed != 1 || r.Acquire() || freed != 1 {
		t.Errorf("freed %d times", freed)
	}
}

// TestTable checks that lookups agree with a search of all regions, whichever of them overlap.
func TestTable(t *testing.T) {
	var table Table
	mem := make([]byte, 100)
	base := uint64(1 << 40)
	var regions []*Region
	for _, s := range [][3]int{{0, 100, 1}, {10, 20, 2}, {10, 50, 4}, {15, 16, 7}, {90, 100, 2}, {0, 1, 4}} {
		r := &Region{Base: base + uint64(s[0]), Buf: mem[s[0]:s[1]], Access: uct.Access(s[2]), Free: func() {}}
		regions = append(regions, r)
		table.Add(r)
	}
	check := func() {
		for from := -1; from <= 100; from++ {
			for n := 0; n <= 101; n++ {
				for _, want := range []uct.Access{2, 1, 3} {
					addr := base + uint64(from)
					found := false
					for _, r := range regions {
						found = found || addr >= r.Base && addr+uint64(n) <= r.limit() && r.Access&want == want
					}
					r, b := table.Find(addr, n, want, nil)
					if (r != nil) != found || r != nil && (len(b) != n || n > 0 && &b[0] != &mem[from]) {
						t.Fatalf("%d bytes at %d for %#x: found %v, want %v", n, from, want, r != nil, found)
					}
					if r != nil {
						r.Release()
					}
				}
			}
		}
	}
	for len(regions) > 0 {
		check()
		table.Remove(regions[0])
		regions = regions[1:]
	}
	check()
}
