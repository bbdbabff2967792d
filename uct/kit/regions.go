package kit

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Region is memory that peers may access.
type Region struct {
	table   *Regions
	id      uint64
	base    uint64
	buf     []byte
	access  uct.Access
	removed atomic.Bool // written only with table.mu held
}

// lastID numbers the regions of all tables of the process.
var lastID atomic.Uint64

// ID returns a number that is unique among all past and present regions of the process.
func (r *Region) ID() uint64 { return r.id }

// Bytes returns the memory.
func (r *Region) Bytes() []byte { return r.buf }

// Addr returns the remote address of the first byte, which is its virtual address.
func (r *Region) Addr() uint64 { return r.base }

// Access returns the accesses that peers are permitted.
func (r *Region) Access() uct.Access { return r.access }

// Holds reports whether b lies in the region and the region is in table t.
func (r *Region) Holds(t *Regions, b []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.table != t || r.removed.Load() || len(b) == 0 {
		return false
	}
	at := addressOf(b)
	return at >= r.base && at+uint64(len(b)) <= r.end()
}

// end is the address after the last byte.
func (r *Region) end() uint64 { return r.base + uint64(len(r.buf)) }

// At returns the n bytes at addr if the region is still in its table, contains all n bytes and
// permits the accesses in want; otherwise ok is false.
func (r *Region) At(addr uint64, n int, want uct.Access) (b []byte, ok bool) {
	off, end := addr-r.base, addr+uint64(n)
	if addr < r.base || end < addr || end > r.end() || r.access&want != want || r.removed.Load() {
		return nil, false
	}
	return r.buf[off : off+uint64(n) : off+uint64(n)], true
}

// Regions maps remote addresses to registered memory. Any goroutine may call its methods. Lookup
// takes no lock: it reads a sorted snapshot that Add and Remove replace. The zero value is
// empty.
type Regions struct {
	mu   sync.Mutex // serialises Add and Remove
	snap atomic.Pointer[[]span]
	ids  map[uint64]*Region // guarded by mu; includes empty regions, which are in no snapshot
}

// span is a region in the snapshot. reach is the largest end address of this and all earlier
// spans: a backward search can stop when reach is below the end of the access.
type span struct {
	*Region
	reach uint64
}

// Add permits peers the given accesses to buf. Regions may overlap. The region of an empty buf
// permits no access.
func (t *Regions) Add(buf []byte, access uct.Access) *Region {
	r := &Region{table: t, id: lastID.Add(1), buf: buf, access: access}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ids == nil {
		t.ids = make(map[uint64]*Region)
	}
	t.ids[r.id] = r
	if len(buf) == 0 {
		return r
	}
	r.base = addressOf(buf)
	old := t.spans()
	at, _ := slices.BinarySearchFunc(old, r.base, func(s span, base uint64) int {
		if s.base <= base {
			return -1
		}
		return 1
	})
	spans := make([]span, 0, len(old)+1)
	spans = append(append(append(spans, old[:at]...), span{Region: r}), old[at:]...)
	t.publish(spans, at)
	return r
}

// Remove ends the access to r. For a region that is not in the table it returns
// ucs.ErrInvalidParam. It does not wait for an access that another goroutine has already begun.
func (t *Regions) Remove(r *Region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.table != t || r.removed.Load() {
		return fmt.Errorf("kit: region is not registered here: %w", ucs.ErrInvalidParam)
	}
	r.removed.Store(true)
	if len(r.buf) > 0 {
		old := t.spans()
		at := slices.IndexFunc(old, func(s span) bool { return s.Region == r })
		t.publish(slices.Delete(slices.Clone(old), at, at+1), at)
	}
	delete(t.ids, r.id)
	return nil
}

// Len returns the number of regions.
func (t *Regions) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.ids)
}

// Find returns the region with an ID, or nil if the table has none.
func (t *Regions) Find(id uint64) *Region {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ids[id]
}

// Lookup returns the n bytes at addr if one region contains all n bytes and permits the accesses in
// want; otherwise ok is false.
func (t *Regions) Lookup(addr uint64, n int, want uct.Access) (b []byte, ok bool) {
	end := addr + uint64(n)
	if end < addr {
		return nil, false
	}
	spans := t.spans()
	// The last span that starts at or before addr.
	lo, hi := 0, len(spans)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if spans[mid].base <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := lo - 1; i >= 0 && spans[i].reach >= end; i-- {
		if s := &spans[i]; s.end() >= end && s.access&want == want {
			off := addr - s.base
			return s.buf[off : off+uint64(n) : off+uint64(n)], true
		}
	}
	return nil, false
}

func (t *Regions) spans() []span {
	if p := t.snap.Load(); p != nil {
		return *p
	}
	return nil
}

// publish updates the field reach of all spans from index from on, and stores the spans as the new
// snapshot.
func (t *Regions) publish(spans []span, from int) {
	reach := uint64(0)
	if from > 0 {
		reach = spans[from-1].reach
	}
	for i := from; i < len(spans); i++ {
		reach = max(reach, spans[i].end())
		spans[i].reach = reach
	}
	t.snap.Store(&spans)
}
