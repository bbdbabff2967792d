//go:build linux

package shm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// Limits of the segments that a peer can make one endpoint attach: their number and bytes.
const (
	maxSegments = 4096
	maxMapped   = min(64<<30, math.MaxInt/4)
)

// buffers is an attached segment of a peer's receive buffers. An endpoint keeps a list sorted by id
// instead of a map: most peers have one segment, and a map would be the largest part of an
// endpoint.
type buffers struct {
	id uint64
	*attachment
}

// buffersAt returns the index in the list where the segment with an id is, or would be inserted.
func (e *endpoint) buffersAt(id uint64) (at int, found bool) {
	return slices.BinarySearchFunc(e.segs, id, func(b buffers, id uint64) int { return cmp.Compare(b.id, id) })
}

// attach returns the memory of the segment that descriptor d is in. It attaches the segment if the
// endpoint has not attached it before, and stores it in lastID and lastMem. The endpoint fails if
// the descriptor is invalid. The descriptor was read when the head was h. If the descriptor is
// invalid but the head has moved on, the owner may have been writing another descriptor meanwhile:
// then attach returns nil and no error, and the endpoint does not fail.
//
//go:noinline
func (e *endpoint) attach(d descriptor, h uint64) ([]byte, error) {
	var a *attachment
	var err error
	if at, found := e.buffersAt(d.seg); found {
		a = e.segs[at].attachment
	} else {
		a, err = e.attachNew(d)
	}
	switch {
	case err == ucs.ErrNoResource:
		return nil, err
	case err != nil:
		err = fmt.Errorf("shm: receive buffers of the peer: %w", err)
	case uint64(d.offset)+uint64(e.i.o.seg) > uint64(len(a.mem)):
		err = fmt.Errorf("shm: the peer names a receive buffer at %d in a segment of %d bytes: %w",
			d.offset, len(a.mem), ucs.ErrConnectionReset)
	default:
		e.lastID, e.lastMem = d.seg, a.mem
		return a.mem, nil
	}
	if atomic.LoadUint64(e.head)&^armed != h&^armed {
		return nil, nil
	}
	return nil, e.fail(err)
}

func (e *endpoint) attachNew(d descriptor) (*attachment, error) {
	a, err := e.attachSegment(d.seg)
	if err == nil && a.shrink && !e.fenced {
		// The running call has no fence yet.
		e.fence()
		return nil, ucs.ErrNoResource
	}
	return a, err
}

// attachSegment attaches a segment of the peer's receive buffers for the life of the endpoint.
// The segment must belong to the peer itself.
func (e *endpoint) attachSegment(id uint64) (*attachment, error) {
	m := e.i.domain.m
	if m.owner(id) != m.owner(e.ref.id) {
		return nil, fmt.Errorf("segment %#x belongs to another process: %w", id, ucs.ErrConnectionReset)
	}
	if len(e.segs) >= maxSegments || e.mapped > maxMapped {
		return nil, fmt.Errorf("%d segments of %d bytes are attached already: %w", len(e.segs), e.mapped, ucs.ErrExceedsLimit)
	}
	a, err := e.i.domain.attached.attachWith(e.i.room, reference{id: id, dir: e.ref.dir}, e.proc.PID)
	if err != nil {
		return nil, err
	}
	at, _ := e.buffersAt(id)
	e.segs = slices.Insert(e.segs, at, buffers{id, a})
	e.mapped += len(a.mem)
	return a, nil
}

// maxEarly is the largest number of segments of receive buffers that are attached in advance. A new
// ring has buffers from one or two segments; later segments are attached when they are needed.
const maxEarly = 16

// attachBuffers attaches the segments that the descriptors in the ring name. The owner may be
// writing other descriptors meanwhile, so a descriptor may be read half written; so up to three
// tries are made.
func (e *endpoint) attachBuffers() (err error) {
	for range 3 {
		if err = e.tryAttachBuffers(); err == nil {
			break
		}
	}
	return err
}

func (e *endpoint) tryAttachBuffers() error {
	ids, err := e.bufferIDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, found := e.buffersAt(id); found {
			continue
		}
		a, err := e.attachSegment(id)
		if err != nil {
			return err
		}
		if a.shrink {
			e.fence()
		}
	}
	return nil
}

// bufferIDs returns the ids of the segments that the descriptors name, maxEarly at most.
func (r *txRing) bufferIDs() (ids []uint64, err error) {
	if r.seg.shrink {
		defer fault.End(fault.Begin(), r, nil, &err)
	}
	for at := 0; at < len(r.elems) && len(ids) < maxEarly; at += r.elem {
		if id := readDescriptor(r.elems[at:]).seg; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// txRing is the send side's view of a peer's ring.
type txRing struct {
	head    *uint64
	addrLen *uint32
	elems   []byte
	tail    uint64  // the peer's tail, as read last
	n       uint64  // number of elements
	elem    int     // size of an element in bytes
	peer    *uint64 // the tail word in the peer's ring
	seg     *attachment
	ref     reference
	pid     int // process that the ring names as its owner
	proc    host.Process
	wakeup  string // name of the peer's wakeup socket; empty: the peer cannot be woken
	ours    bool   // the peer uses this library
}

// handover represents all rings toward the race detector, which does not observe shared memory.
// Sending a message is a release of handover and receiving one is an acquire: two goroutines of one
// process that exchange messages through a ring are synchronised by the ring.
var handover byte

func raceSent()     { race.Release(&handover) }
func raceReceived() { race.Acquire(&handover) }
