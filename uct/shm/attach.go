//go:build linux

package shm

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/ucs"
)

// attachment is a peer's segment mapped into this process. However many
// endpoints and keys use a segment, it is mapped once.
type attachment struct {
	ident  identity
	mem    []byte // whole pages, all of them backed by the segment when it was attached
	size   int    // of the segment at that time
	shrink bool   // the segment can get shorter: touching it needs a fence
	owner  int    // as in object
	refs   int    // guarded by attachTable.mu
}

// Limits of what peers can make this process map. Files without pages cost them
// nothing, and a process whose address space is full, or that has as many mappings
// as it may, ends: Go cannot get memory for its own use any more.
const (
	maxAttached      = 1 << 15                   // half of what vm.max_map_count is at least
	maxAttachedBytes = min(1<<45, math.MaxInt/2) // a quarter of the address space
)

// mappedTotal counts segments and their bytes.
type mappedTotal struct{ count, bytes atomic.Int64 }

// attachedAll is the segments that all domains have attached.
var attachedAll mappedTotal

// take counts a segment of n bytes, if there may be one more.
func (m *mappedTotal) take(n int) bool {
	count, bytes := m.count.Add(1), m.bytes.Add(int64(n))
	if count > maxAttached || bytes > maxAttachedBytes {
		m.give(n)
		return false
	}
	return true
}

func (m *mappedTotal) give(n int) {
	m.count.Add(-1)
	m.bytes.Add(-int64(n))
}

// attachTable holds the attachments of a domain. Its methods may be called from
// any goroutine.
type attachTable struct {
	m       mapper
	mu      sync.Mutex
	byIdent map[identity]*attachment // guarded by mu
}

// attach attaches the segment a peer named; release must follow. It must be that
// of process pid, 0 where that is not known. Segments are told apart by what they
// are and not by their names, which the owner may give to another one later.
func (t *attachTable) attach(ref reference, pid int) (*attachment, error) {
	o, err := t.m.open(ref, pid)
	if err != nil {
		return nil, err
	}
	defer t.m.close(o)
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.byIdent[o.ident]; a != nil && a.size == o.size {
		a.refs++
		return a, nil
	}
	if !attachedAll.take(o.size) {
		return nil, fmt.Errorf("mapping %d bytes of the peer: %d bytes in %d segments of peers are mapped already: %w: %w",
			o.size, attachedAll.bytes.Load(), attachedAll.count.Load(), ucs.ErrExceedsLimit, ucs.ErrUnreachable)
	}
	mem, err := t.m.mmap(&o)
	if err != nil {
		attachedAll.give(o.size)
		return nil, fmt.Errorf("mapping %d bytes of the peer: %w: %w", o.size, arena.WithLimit(err), ucs.ErrUnreachable)
	}
	a := &attachment{ident: o.ident, mem: mem, size: o.size, shrink: o.shrink, owner: o.owner, refs: 1}
	if t.byIdent == nil {
		t.byIdent = make(map[identity]*attachment)
	}
	t.byIdent[o.ident] = a
	return a, nil
}

// retain is attach for one that the caller has already.
func (t *attachTable) retain(a *attachment) {
	t.mu.Lock()
	a.refs++
	t.mu.Unlock()
}

// release gives an attachment back.
func (t *attachTable) release(a *attachment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.refs--; a.refs > 0 {
		return
	}
	if t.byIdent[a.ident] == a {
		delete(t.byIdent, a.ident)
	}
	t.m.unmap(a.mem)
	a.mem = nil
	attachedAll.give(a.size)
}

// len is the number of segments attached.
func (t *attachTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byIdent)
}
