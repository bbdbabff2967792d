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

// region is memory registered with the domain. While peers may write to it, it
// is in the table of exposed memory.
type region struct {
	buf    []byte
	base   uint64         // address of the first byte
	pinner runtime.Pinner // keeps Go memory in place
	remote bool           // peers may write
	scope  *scope         // nil: all of them
	live   bool           // registered; guarded by the table's mu

	arriving atomic.Int32 // puts that have begun and whose rest is to come

	prev, next *region // live ones; guarded by the table's mu

	// use holds the generation in the upper bits, the open bit, and the number of
	// writers. Generations count the registrations of the table, so a put that
	// began before a region was recycled cannot go on in its successor.
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

// acquire keeps the memory from being deregistered until release. It fails when
// that has happened already, or when it was registered later than since. Any
// goroutine may call it.
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

// revoke refuses further writers and waits for those that are copying. They hold
// the region for one system call at most.
func (r *region) revoke() {
	r.use.And(^uint64(useOpen))
	for r.use.Load()&useCount != 0 {
		runtime.Gosched()
	}
}

// exposedTable is the memory of a domain. All methods may be called from any
// goroutine.
type exposedTable struct {
	mu      sync.Mutex
	regions []*region // exposed ones, by address; guarded by mu
	reach   []uint64  // largest end of regions[:i+1]; guarded by mu
	spare   []*region // to be used again; guarded by mu
	live    int       // guarded by mu
	gen     uint64    // of the last registration; guarded by mu
	head    *region   // of the live ones; guarded by mu
}

// maxSpare bounds the regions kept for later.
const maxSpare = 1024

// add registers buf, open to a peer, or to all if s is nil, when remote is set. In
// steady state it allocates nothing.
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

// remove ends a registration. When it returns no peer writes to the memory any
// more.
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

// abandon unpins what was never deregistered: the runtime ends the program when
// a forgotten pin is collected.
func (t *exposedTable) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := t.head; r != nil; r = r.next {
		r.pinner.Unpin()
	}
}

// anyGen is later than every registration.
const anyGen = ^uint64(0)

// find returns a region that is exposed to the peer of a connection, of generation
// since at most, that holds n bytes at addr, where in it they are, and the last
// generation there is; nil when there is none.
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

// after returns the index of the first region that starts behind addr.
func (t *exposedTable) after(addr uint64) int {
	at, _ := slices.BinarySearchFunc(t.regions, addr, func(r *region, addr uint64) int {
		if r.base <= addr {
			return -1
		}
		return 1
	})
	return at
}

// updateReach makes reach right from index i on.
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
