// Package regions holds the table of memory that peers may access by messages, without RDMA. For
// each region the table has the bytes, the permitted operations, the peers to which access is
// limited, and the number of accesses under way.
package regions

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/uct"
)

// Region is memory that peers may access by messages. Messages contain addresses but no keys, so
// Table checks every access. The memory stays valid while an access is in progress, even if its
// registration ends in the meantime.
type Region struct {
	Base   uint64
	Buf    []byte
	Access uct.Access
	Free   func() // called once, when the region is closed and no longer accessed

	Owner any // the owner of the region; not used by this package

	// Limited means that only peers that were passed to Admit may access the region. It is
	// set before the region is added to a table.
	Limited bool
	admits  atomic.Pointer[[]any] // the peers that were passed to Admit

	// MapMD is set for memory that peers can map: the bit of the memory domain that allocated it.
	MapMD uint64

	// Rkey is the packed key of memory that peers can map. Messages may carry it to peers.
	Rkey []byte

	use atomic.Int64 // number of accesses in progress, plus the constant closed after Close
}

const closed = 1 << 40 // more than the number of accesses can be

// Acquire begins an access: it keeps the memory valid until Release. It returns false if the region
// is closed.
func (r *Region) Acquire() bool {
	if r.use.Add(1) > closed {
		r.Release()
		return false
	}
	return true
}

// Release ends an access. The last one frees the memory if the region is closed.
func (r *Region) Release() {
	if r.use.Add(-1) == closed {
		r.end()
	}
}

// Close refuses accesses from now on. The memory is freed when no access is in progress.
func (r *Region) Close() {
	if r.use.Add(closed) == closed {
		r.end()
	}
}

// end calls Free once. It may be called again, because an Acquire of a closed region also calls
// Release.
func (r *Region) end() {
	if r.use.CompareAndSwap(closed, 2*closed) {
		r.Free()
	}
}

// Admit permits a peer to access a limited region. The parameter who identifies the peer. The
// caller ensures that only one call runs at a time.
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

// entry is a region in the snapshot, which is sorted by start address. The field reach is the
// largest end address of this and all earlier entries, so a backward search can stop at an entry
// where it is too small.
type entry struct {
	*Region
	reach uint64
}

// Add adds a region, whose Buf must not be empty. Peers may then access it. Regions may overlap.
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

// Remove removes r from the table. Accesses in progress continue.
func (t *Table) Remove(r *Region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.entries()
	if at := slices.IndexFunc(old, func(e entry) bool { return e.Region == r }); at >= 0 {
		t.publish(slices.Delete(slices.Clone(old), at, at+1), at)
	}
}

// Find returns a region that contains the n bytes at addr and permits an access to a peer, and the
// bytes; nil if there is none. The parameter want is the kind of access, and the parameter who
// identifies the peer. The region is acquired, so the caller must release it.
func (t *Table) Find(addr uint64, n int, want uct.Access, who any) (*Region, []byte) {
	r := t.search(addr, n, want, math.MaxUint64, who)
	if r == nil {
		return nil, nil
	}
	off := addr - r.Base
	return r, r.Buf[off : off+uint64(n) : off+uint64(n)]
}

// Holder returns a region that contains the n bytes at addr and is not limited to some peers, nil
// if there is none. The region is acquired, so the caller must release it. Holder does not check
// Region.Access: it is for callers with all rights to the memory.
func (t *Table) Holder(addr uint64, n int) *Region { return t.search(addr, n, 0, math.MaxUint64, nil) }

// FindMapped returns a region that contains the n bytes at addr and that peers may map for reading,
// nil if there is none. The parameter mds is a bit map of memory domains, one of which must be
// Region.MapMD. The region is acquired, so the caller must release it.
func (t *Table) FindMapped(addr uint64, n int, mds uint64) *Region {
	return t.search(addr, n, uct.AccessRemoteGet, mds, nil)
}

// search is like Find, but only for regions whose MapMD is in the bit map mds. All bits mean any
// region, with or without MapMD.
func (t *Table) search(addr uint64, n int, want uct.Access, mds uint64, who any) *Region {
	end := addr + uint64(n)
	if end < addr || n < 0 {
		return nil
	}
	list := t.entries()
	lo, hi := 0, len(list) // lo becomes the index of the first entry that starts behind addr
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

// publish makes list the new snapshot. It differs from the old snapshot from an index on.
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
