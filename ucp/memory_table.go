package ucp

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/uct"
)

// region is memory that peers may access by messages. Messages carry addresses,
// no keys: everything is checked here. It stays in place while somebody accesses
// it, also when its registration has ended meanwhile.
type region struct {
	base   uint64
	buf    []byte
	access uct.Access
	free   func() // called once, when closed and no longer accessed

	// Of memory that peers can map: the domain that allocated it, as a bit, and
	// its packed key, which peers may be given with messages.
	mapMD uint64
	rkey  []byte

	use atomic.Int64 // accesses under way; regionClosed added when closed
}

const regionClosed = 1 << 40

// acquire keeps the memory in place until release; false when it is closed.
func (r *region) acquire() bool {
	if r.use.Add(1) > regionClosed {
		r.release()
		return false
	}
	return true
}

func (r *region) release() {
	if r.use.Add(-1) == regionClosed {
		r.end()
	}
}

// close refuses accesses from now on.
func (r *region) close() {
	if r.use.Add(regionClosed) == regionClosed {
		r.end()
	}
}

// end frees the memory, once: a late acquire may come to zero again.
func (r *region) end() {
	if r.use.CompareAndSwap(regionClosed, 2*regionClosed) {
		r.free()
	}
}

func (r *region) limit() uint64 { return r.base + uint64(len(r.buf)) }

// regionTable maps addresses to regions. All methods may be called from any
// goroutine; find takes no lock. The zero value is empty.
type regionTable struct {
	mu   sync.Mutex // serializes writers
	snap atomic.Pointer[[]regionEntry]
}

// regionEntry is a region in the snapshot, which is sorted by address. reach is
// the largest end of this and all earlier ones: a search that walks back can
// stop where nothing reaches far enough.
type regionEntry struct {
	*region
	reach uint64
}

// add lets peers do with buf, which is not empty, what access says. Regions may
// overlap.
func (t *regionTable) add(r *region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.entries()
	at, _ := slices.BinarySearchFunc(old, r.base, func(e regionEntry, base uint64) int {
		if e.base <= base {
			return -1
		}
		return 1
	})
	list := make([]regionEntry, 0, len(old)+1)
	t.publish(append(append(append(list, old[:at]...), regionEntry{region: r}), old[at:]...), at)
}

// remove hides r from find.
func (t *regionTable) remove(r *region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.entries()
	if at := slices.IndexFunc(old, func(e regionEntry) bool { return e.region == r }); at >= 0 {
		t.publish(slices.Delete(slices.Clone(old), at, at+1), at)
	}
}

// find returns a region that holds the n bytes at addr and allows want, acquired,
// and the bytes; nil when there is none.
func (t *regionTable) find(addr uint64, n int, want uct.Access) (*region, []byte) {
	r := t.search(addr, n, want, math.MaxUint64)
	if r == nil {
		return nil, nil
	}
	off := addr - r.base
	return r, r.buf[off : off+uint64(n) : off+uint64(n)]
}

// findMapped returns a region, acquired, that holds the n bytes at addr and that
// peers may map for reading through one of some domains; nil when there is none.
func (t *regionTable) findMapped(addr uint64, n int, mds uint64) *region {
	return t.search(addr, n, uct.AccessRemoteGet, mds)
}

// search is find for regions of some domains, all bits: of any or none.
func (t *regionTable) search(addr uint64, n int, want uct.Access, mds uint64) *region {
	end := addr + uint64(n)
	if end < addr || n < 0 {
		return nil
	}
	list := t.entries()
	lo, hi := 0, len(list) // to the first that starts behind addr
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if list[mid].base <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := lo - 1; i >= 0 && list[i].reach >= end; i-- {
		r := list[i].region
		if r.limit() >= end && r.access&want == want && (mds == math.MaxUint64 || r.mapMD&mds != 0) && r.acquire() {
			return r
		}
	}
	return nil
}

func (t *regionTable) entries() []regionEntry {
	if p := t.snap.Load(); p != nil {
		return *p
	}
	return nil
}

// publish makes list, changed from index from on, the table.
func (t *regionTable) publish(list []regionEntry, from int) {
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

// pinBoard keeps the pins of registered memory. The runtime ends a program that
// forgets a pin; a context that is forgotten with registrations must not do that,
// so the board, which does not refer to the context, undoes what is left.
type pinBoard struct {
	mu   sync.Mutex
	pins map[*runtime.Pinner]struct{}
}

func newPinBoard() *pinBoard {
	b := &pinBoard{pins: make(map[*runtime.Pinner]struct{})}
	runtime.SetFinalizer(b, func(b *pinBoard) {
		for p := range b.pins {
			p.Unpin()
		}
	})
	return b
}

// pin keeps b, which is not empty, where it is.
func (b *pinBoard) pin(buf []byte) *runtime.Pinner {
	p := new(runtime.Pinner)
	p.Pin(&buf[0])
	b.mu.Lock()
	b.pins[p] = struct{}{}
	b.mu.Unlock()
	return p
}

func (b *pinBoard) unpin(p *runtime.Pinner) {
	b.mu.Lock()
	delete(b.pins, p)
	b.mu.Unlock()
	p.Unpin()
}
