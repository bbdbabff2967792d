//go:build linux

package shm

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/ucs"
)

// attachment is a peer's segment mapped into this process. A domain maps a segment once,
// however many endpoints and keys use the segment.
type attachment struct {
	ident  identity
	mem    []byte // whole pages, all of them backed by the segment when it was attached
	size   int    // bytes of the segment when it was attached
	shrink bool   // the peer can take its memory away: accesses need a fence (internal/fault)
	owner  int    // process that made the segment, as in object
	refs   int    // number of users; guarded by attachTable.mu
}

// maxAttachedBytes is the largest number of bytes that the segments of peers may take in the
// address space, a quarter of it.
const maxAttachedBytes = min(1<<45, math.MaxInt/2)

// attachTable holds the attachments of a domain. Its methods may be called from
// any goroutine.
type attachTable struct {
	m       mapper
	mu      sync.Mutex
	byIdent map[identity]*attachment // guarded by mu
}

// attach attaches the segment that a peer named; release must follow. The segment must belong
// to process pid, unless pid is 0. Segments are told apart by identity and not by reference:
// an owner may give the same name to another segment later.
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
	if err := attachedTotal.take(o.size); err != nil {
		return nil, err
	}
	mem, err := t.m.mmap(&o)
	if err != nil {
		attachedTotal.give(o.size)
		if errors.Is(err, unix.ENOMEM) {
			attachedTotal.refused()
		}
		return nil, fmt.Errorf("mapping %d bytes of the peer: %w: %w", o.size, arena.WithLimit(err), ucs.ErrUnreachable)
	}
	a := &attachment{ident: o.ident, mem: mem, size: o.size, shrink: o.shrink, owner: o.owner, refs: 1}
	if t.byIdent == nil {
		t.byIdent = make(map[identity]*attachment)
	}
	t.byIdent[o.ident] = a
	return a, nil
}

// attachWith calls attach. If that fails, it calls makeRoom with the error, and calls attach once
// more if makeRoom returns true.
func (t *attachTable) attachWith(makeRoom func(why error) bool, ref reference, pid int) (*attachment, error) {
	a, err := t.attach(ref, pid)
	if err != nil && makeRoom(err) {
		a, err = t.attach(ref, pid)
	}
	return a, err
}

// retain adds a reference to an attachment that the caller has already; release must follow.
func (t *attachTable) retain(a *attachment) {
	t.mu.Lock()
	a.refs++
	t.mu.Unlock()
}

// release drops a reference to an attachment. The last release unmaps the segment.
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
	attachedTotal.give(a.size)
}

// len returns the number of segments attached.
func (t *attachTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byIdent)
}

// A caller that makes an endpoint also queries, before and after, whether the peer can be reached
// and which process the peer is. Each of these calls looks at the peer's ring, which takes a dozen
// or more system calls. So the result of the last look is cached, and is used again as long as the
// worker has not made progress.

// ringCache caches the last ring of a peer that was attached and checked. The ring stays attached until
// dropCachedRing.
type ringCache struct {
	ring  *txRing
	addr  []byte
	epoch uint64 // the worker's epoch at the time: the cache is valid during one epoch
}

// seen returns a copy of the cached ring, with its tail read again. The caller owns the attachment.
func (i *iface) seen() *txRing {
	r := *i.looked.ring
	r.tail = atomic.LoadUint64(r.peer)
	i.domain.attached.retain(r.seg)
	return &r
}

func (i *iface) dropCachedRing() {
	if r := i.looked.ring; r != nil {
		i.looked.ring = nil
		i.domain.attached.release(r.seg)
	}
}
