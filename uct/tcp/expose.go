//go:build linux

package tcp

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// region is memory registered with the domain. A region that peers may write to is in the
// table of exposed memory while it is registered.
type region struct {
	buf    []byte
	base   uint64         // address of the first byte
	pinner runtime.Pinner // keeps Go memory in place
	remote bool           // peers may write
	scope  *scope         // the peer that may write; nil: every peer may
	live   bool           // registered; guarded by the table's mu

	arriving atomic.Int32 // puts whose first part has arrived and whose rest has not

	prev, next *region // in the list of live regions; guarded by the table's mu

	// use holds the generation in the upper bits, then the open bit, then the number of
	// writers. Generations count the registrations of the table. So a put that began before
	// its region was recycled cannot continue in the next registration.
	use atomic.Uint64
}

// Layout of region.use.
const (
	useOpen  = 1 << 16
	useCount = useOpen - 1
	useGen   = useOpen << 1 // one generation
)

// Bytes implements uct.MemHandle.
func (r *region) Bytes() []byte { return r.buf }

// acquire keeps the memory from being deregistered until release. It fails if the memory is
// deregistered already, if its generation is later than since, or if it has as many writers as
// can be counted. Any goroutine may call it.
func (r *region) acquire(since uint64) bool {
	for {
		u := r.use.Load()
		if u&useOpen == 0 || u/useGen > since || u&useCount == useCount {
			return false
		}
		if r.use.CompareAndSwap(u, u+1) {
			return true
		}
	}
}

func (r *region) release() { r.use.Add(^uint64(0)) }

// open starts a new generation, which writers may acquire.
func (r *region) open(gen uint64) { r.use.Store(gen*useGen | useOpen) }

// revoke refuses further writers and waits for the writers that are copying. A writer holds
// the region for one system call at most.
func (r *region) revoke() {
	r.use.And(^uint64(useOpen))
	for r.use.Load()&useCount != 0 {
		runtime.Gosched()
	}
}

// exposedTable holds the regions of a domain. add, remove, abandon and find may be called from
// any goroutine; after and updateReach need mu.
type exposedTable struct {
	mu      sync.Mutex
	regions []*region // exposed regions, sorted by address; guarded by mu
	reach   []uint64  // reach[i] is the largest end in regions[:i+1]; guarded by mu
	spare   []*region // to be reused; guarded by mu
	live    int       // number of live regions; guarded by mu
	gen     uint64    // of the last registration; guarded by mu
	head    *region   // of the list of live regions; guarded by mu
}

// maxSpare bounds the number of regions kept for reuse.
const maxSpare = 1024

// add registers buf. If remote is set, buf is exposed to the peer of scope s, or to every peer
// if s is nil. In steady state add allocates nothing.
func (t *exposedTable) add(buf []byte, remote bool, s *scope) *region {
	t.mu.Lock()
	defer t.mu.Unlock()
	var r *region
	if n := len(t.spare); n > 0 {
		r = t.spare[n-1]
		t.spare = t.spare[:n-1]
	} else {
		r = new(region)
	}
	r.buf, r.remote, r.live, r.scope = buf, remote && len(buf) > 0, true, s
	t.live++
	if r.next = t.head; r.next != nil {
		r.next.prev = r
	}
	t.head = r
	if len(buf) == 0 {
		return r
	}
	r.pinner.Pin(&buf[0])
	r.base = addressOf(buf)
	t.gen++
	r.open(t.gen)
	if r.remote {
		at := t.after(r.base)
		t.regions = slices.Insert(t.regions, at, r)
		t.reach = slices.Insert(t.reach, at, 0)
		t.updateReach(at)
	}
	return r
}

// remove ends a registration. When remove returns, no peer writes to the memory any more. A
// region that is not registered is an error.
func (t *exposedTable) remove(r *region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !r.live {
		return fmt.Errorf("tcp: memory is not registered: %w", ucs.ErrInvalidParam)
	}
	r.live = false
	t.live--
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		t.head = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
	if r.remote {
		at := slices.Index(t.regions, r)
		t.regions = slices.Delete(t.regions, at, at+1)
		t.reach = slices.Delete(t.reach, at, at+1)
		t.updateReach(at)
	}
	r.revoke()
	r.pinner.Unpin()
	r.buf, r.scope = nil, nil
	if len(t.spare) < maxSpare && r.arriving.Load() == 0 {
		t.spare = append(t.spare, r)
	}
	return nil
}

// abandon unpins the memory that was never deregistered, because the runtime ends the program
// when a pinner that still pins memory is collected.
func (t *exposedTable) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := t.head; r != nil; r = r.next {
		r.pinner.Unpin()
	}
}

// anyGen is later than every registration.
const anyGen = ^uint64(0)

// find returns a region that holds the n bytes at addr, is exposed to the peer of c, and has
// generation since or an earlier one. at is the offset of addr in the region, and gen is the
// generation of the last registration. r is nil if there is no such region.
func (t *exposedTable) find(c *conn, addr, n, since uint64) (r *region, at int, gen uint64) {
	end := addr + n
	if end < addr {
		return nil, 0, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := t.after(addr) - 1; i >= 0 && t.reach[i] >= end; i-- {
		if r := t.regions[i]; r.base+uint64(len(r.buf)) >= end && r.use.Load()/useGen <= since &&
			(r.scope == nil || r.scope.admits(c)) {
			return r, int(addr - r.base), t.gen
		}
	}
	return nil, 0, 0
}

// after returns the index of the first region that starts after addr.
func (t *exposedTable) after(addr uint64) int {
	at, _ := slices.BinarySearchFunc(t.regions, addr, func(r *region, addr uint64) int {
		if r.base <= addr {
			return -1
		}
		return 1
	})
	return at
}

// updateReach recomputes reach from index i on.
func (t *exposedTable) updateReach(i int) {
	last := uint64(0)
	if i > 0 {
		last = t.reach[i-1]
	}
	for ; i < len(t.regions); i++ {
		r := t.regions[i]
		last = max(last, r.base+uint64(len(r.buf)))
		t.reach[i] = last
	}
}

var _ uct.MemHandle = (*region)(nil)
