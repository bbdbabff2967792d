// Package regions is the table of memory that peers may access by messages: which
// bytes, how, and who is at it just now.
package regions

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/uct"
)

// Region is memory that peers may access by messages. Messages carry addresses,
// no keys: everything is checked here. It stays in place while somebody accesses
// it, also when its registration has ended meanwhile.
type Region struct {
	Base   uint64
	Buf    []byte
	Access uct.Access
	Free   func() // called once, when closed and no longer accessed

	Owner any // whose region it is

	// Limited says that only those may access it whom Admit was called with. It is set
	// before the region is added.
	Limited bool
	admits  atomic.Pointer[[]any]

	// Of memory that peers can map: the domain that allocated it, as a bit, and
	// its packed key, which peers may be given with messages.
	MapMD uint64
	Rkey  []byte

	use atomic.Int64 // accesses under way; closed added when closed
}

const closed = 1 << 40

// Acquire keeps the memory in place until Release; false when it is closed.
func (r *Region) Acquire() bool {
	if r.use.Add(1) > closed {
		r.Release()
		return false
	}
	return true
}

// Release ends an access.
func (r *Region) Release() {
	if r.use.Add(-1) == closed {
		r.end()
	}
}

// Close refuses accesses from now on.
func (r *Region) Close() {
	if r.use.Add(closed) == closed {
		r.end()
	}
}

// end frees the memory, once: a late Acquire may come to zero again.
func (r *Region) end() {
	if r.use.CompareAndSwap(closed, 2*closed) {
		r.Free()
	}
}

// Admit lets somebody at a limited region. Calls exclude each other.
func (r *Region) Admit(who any) {
	var list []any
	if old := r.admits.Load(); old != nil {
		list = *old
	}
	if !slices.Contains(list, who) {
		list = append(slices.Clone(list), who)
		r.admits.Store(&list)
	}
}

func (r *Region) admitted(who any) bool {
	list := r.admits.Load()
	return list != nil && slices.Contains(*list, who)
}

func (r *Region) limit() uint64 { return r.Base + uint64(len(r.Buf)) }

// Table maps addresses to regions. All methods may be called from any
// goroutine; Find takes no lock. The zero value is empty.
type Table struct {
	mu   sync.Mutex // serializes writers
	snap atomic.Pointer[[]entry]
}

// entry is a region in the snapshot, which is sorted by address. reach is
// the largest end of this and all earlier ones: a search that walks back can
// stop where nothing reaches far enough.
type entry struct {
	*Region
	reach uint64
}

// Add lets peers do with buf, which is not empty, what access says. Regions may
// overlap.
func (t *Table) Add(r *Region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.entries()
	at, _ := slices.BinarySearchFunc(old, r.Base, func(e entry, base uint64) int {
		if e.Base <= base {
			return -1
		}
		return 1
	})
	list := make([]entry, 0, len(old)+1)
	t.publish(append(append(append(list, old[:at]...), entry{Region: r}), old[at:]...), at)
}

// Remove hides r from Find.
func (t *Table) Remove(r *Region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.entries()
	if at := slices.IndexFunc(old, func(e entry) bool { return e.Region == r }); at >= 0 {
		t.publish(slices.Delete(slices.Clone(old), at, at+1), at)
	}
}

// Find returns a region that holds the n bytes at addr and allows want to who, acquired,
// and the bytes; nil when there is none.
func (t *Table) Find(addr uint64, n int, want uct.Access, who any) (*Region, []byte) {
	r := t.search(addr, n, want, math.MaxUint64, who)
	if r == nil {
		return nil, nil
	}
	off := addr - r.Base
	return r, r.Buf[off : off+uint64(n) : off+uint64(n)]
}

// Holder returns a region that holds the n bytes at addr, acquired, nil when there is none
// that is open to everybody. It is for whoever may do with the memory what he wants.
func (t *Table) Holder(addr uint64, n int) *Region { return t.search(addr, n, 0, math.MaxUint64, nil) }

// FindMapped returns a region, acquired, that holds the n bytes at addr and that
// peers may map for reading through one of some domains; nil when there is none.
func (t *Table) FindMapped(addr uint64, n int, mds uint64) *Region {
	return t.search(addr, n, uct.AccessRemoteGet, mds, nil)
}

// search is Find for regions of some domains, all bits: of any or none.
func (t *Table) search(addr uint64, n int, want uct.Access, mds uint64, who any) *Region {
	end := addr + uint64(n)
	if end < addr || n < 0 {
		return nil
	}
	list := t.entries()
	lo, hi := 0, len(list) // to the first that starts behind addr
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if list[mid].Base <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := lo - 1; i >= 0 && list[i].reach >= end; i-- {
		r := list[i].Region
		if r.limit() >= end && r.Access&want == want && (mds == math.MaxUint64 || r.MapMD&mds != 0) &&
			(!r.Limited || r.admitted(who)) && r.Acquire() {
			return r
		}
	}
	return nil
}

func (t *Table) entries() []entry {
	if p := t.snap.Load(); p != nil {
		return *p
	}
	return nil
}

// publish makes list, changed from index from on, the table.
func (t *Table) publish(list []entry, from int) {
	reach := uint64(0)
	if from > 0 {
		reach = list[from-1].reach
	}
	for i := from; i < len(list); i++ {
		reach = max(reach, list[i].limit())
		list[i].reach = reach
	}
	t.snap.Store(&list)
}
