package rma

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Region is memory that peers may touch.
type Region struct {
	table   *Table
	id      uint64
	base    uint64
	buf     []byte
	access  uct.Access
	removed atomic.Bool // stored with table.mu held
}

// lastID numbers the regions of all tables of the process.
var lastID atomic.Uint64

// ID is a number that no other region of the process has, or had.
func (r *Region) ID() uint64 { return r.id }

// Bytes is the memory itself.
func (r *Region) Bytes() []byte { return r.buf }

// Addr is the address peers use for the first byte: its real one.
func (r *Region) Addr() uint64 { return r.base }

// Access is what peers may do.
func (r *Region) Access() uct.Access { return r.access }

// Holds reports whether b is in the region and the region in a table.
func (r *Region) Holds(t *Table, b []byte) bool {
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

// At returns the n bytes at addr when the region is still in its table, holds them all and
// allows want; ok is false otherwise.
func (r *Region) At(addr uint64, n int, want uct.Access) (b []byte, ok bool) {
	off, end := addr-r.base, addr+uint64(n)
	if addr < r.base || end < addr || end > r.end() || r.access&want != want || r.removed.Load() {
		return nil, false
	}
	return r.buf[off : off+uint64(n) : off+uint64(n)], true
}

// Table maps remote addresses to registered memory. All methods may be called
// from any goroutine. Lookups take no lock: they read a sorted snapshot that
// Add and Remove replace. The zero value is empty.
type Table struct {
	mu   sync.Mutex // serialises writers
	snap atomic.Pointer[[]span]
	ids  map[uint64]*Region // guarded by mu; has empty regions too, which no snapshot holds
}

// span is a region in the snapshot. reach is the largest end of this and all
// earlier spans: a search that walks back can stop where nothing reaches far
// enough.
type span struct {
	*Region
	reach uint64
}

// Add lets peers do with buf what access says. Regions may overlap. An empty
// buf gives a region that no access fits into.
func (t *Table) Add(buf []byte, access uct.Access) *Region {
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

// Remove ends the access to r; a region that is not in the table gives
// ucs.ErrInvalidParam. It does not wait for an access that another goroutine
// has already begun.
func (t *Table) Remove(r *Region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.table != t || r.removed.Load() {
		return fmt.Errorf("rma: region is not registered here: %w", ucs.ErrInvalidParam)
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
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.ids)
}

// Find returns the region of a number, nil if the table has none.
func (t *Table) Find(id uint64) *Region {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ids[id]
}

// Lookup returns the n bytes at addr when one region holds them all and allows
// want; ok is false otherwise.
func (t *Table) Lookup(addr uint64, n int, want uct.Access) (b []byte, ok bool) {
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

func (t *Table) spans() []span {
	if p := t.snap.Load(); p != nil {
		return *p
	}
	return nil
}

// publish makes spans, changed from index from on, the table.
func (t *Table) publish(spans []span, from int) {
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
