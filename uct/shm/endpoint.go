//go:build linux

package shm

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// endpoint writes to a peer's ring.
type endpoint struct {
	uct.NoAM
	uct.NoRMA
	txRing
	fenced     bool // the ring or a segment of its descriptors can be cut short
	refusing   bool // nothing is sent any more
	closed     bool
	unwakeable bool // the peer cannot wake us
	full       bool // the ring had no room at the last look
	maxShort   int
	pending    kit.Queue
	i          *iface

	lastID  uint64 // of the descriptor segment used last
	lastMem []byte
	segs    []buffers // descriptor segments, by id
	mapped  int       // bytes in them

	failure error
	user    any
	rounds  uint                // spent waiting for room
	place   kit.Node[*endpoint] // in iface.endpoints
	ended   bool                // and in iface.ended
	exit    exitCheck
}

var _ interface {
	uct.Endpoint
	uct.RMA
	uct.Atomic
	uct.Checker
} = (*endpoint)(nil)

// headerLen is the length of the header of AMShort.
const headerLen = 8

// AMShort implements uct.Endpoint: one compare-and-swap, one copy, one store.
// Everything unusual, a ring that looks full included, is for amShortSlow.
func (e *endpoint) AMShort(id uct.AMID, header uint64, payload []byte, _ uct.SendFlags, _ *uct.Completion) error {
	n := headerLen + len(payload)
	if e.fenced || e.refusing || n > e.maxShort || id >= uct.MaxAMIDs || e.pending.Blocks() {
		return e.amShortSlow(id, header, payload)
	}
	h := atomic.LoadUint64(e.head)
	if h&^armed-e.tail >= e.n || atomic.LoadUint32(e.addrLen) == 0 ||
		!atomic.CompareAndSwapUint64(e.head, h, (h+1)&^armed) {
		return e.amShort(id, header, payload)
	}
	at := int(h&(e.n-1)) * e.elem
	el := elementAt(e.elems, at)
	binary.LittleEndian.PutUint64(el[elemPayload:], header)
	if len(payload) == 8 { // as costs no call
		*(*[8]byte)(el[elemPayload+headerLen:]) = [8]byte(payload)
	} else if len(payload) > 0 {
		copy(e.elems[at+elemPayload+headerLen:], payload)
	}
	// As publish, whose call would cost as much as this.
	flags := uint32(flagInline)
	if h&e.n != 0 {
		flags |= flagPhase
	}
	raceSent()
	word.StoreRelease32(firstWord(el), elementWord(flags, uint8(id), n))
	if h&armed != 0 {
		e.i.sock.wake(e.wakeup)
	}
	e.foresee(at)
	return nil
}

//go:noinline
func (e *endpoint) amShortSlow(id uct.AMID, header uint64, payload []byte) (err error) {
	if n := headerLen + len(payload); e.refusing || n > e.maxShort || id >= uct.MaxAMIDs || e.pending.Blocks() {
		return e.refuse(id, n)
	}
	var f fault.Fence
	f.Begin()
	defer f.End(e, nil, &err)
	e.fenced = false // the call is
	err = e.AMShort(id, header, payload, 0, nil)
	e.fenced = true
	f.Passed()
	return err
}

// amShort sends a message that may be sent.
func (e *endpoint) amShort(id uct.AMID, header uint64, payload []byte) error {
	h, err := e.claim()
	if err != nil {
		return err
	}
	el := e.element(h)
	binary.LittleEndian.PutUint64(el[elemPayload:], header)
	copy(el[elemPayload+headerLen:], payload)
	e.publish(el, h, flagInline, id, headerLen+len(payload))
	return nil
}

// AMShortIOV implements uct.Endpoint.
func (e *endpoint) AMShortIOV(id uct.AMID, iov []uct.IOV, _ uct.SendFlags, _ *uct.Completion) (err error) {
	if e.fenced {
		defer fault.End(fault.Begin(), e, nil, &err)
	}
	n := uct.IOVLen(iov)
	if e.refusing || n > e.maxShort || id >= uct.MaxAMIDs || e.pending.Blocks() {
		return e.refuse(id, n)
	}
	h, err := e.claim()
	if err != nil {
		return err
	}
	el := e.element(h)
	at := elemPayload
	for k := range iov {
		at += copy(el[at:], iov[k].Data)
	}
	e.publish(el, h, flagInline, id, n)
	return nil
}

// AMBcopy implements uct.Endpoint.
func (e *endpoint) AMBcopy(id uct.AMID, p uct.Packer, _ uct.SendFlags, _ *uct.Completion) (int, error) {
	if e.fenced {
		return e.amBcopyFenced(id, p)
	}
	return e.amBcopy(id, p)
}

//go:noinline
func (e *endpoint) amBcopyFenced(id uct.AMID, p uct.Packer) (n int, err error) {
	var f fault.Fence
	f.Begin()
	defer f.End(e, nil, &err)
	n, err = e.amBcopy(id, p)
	f.Passed()
	return n, err
}

func (e *endpoint) amBcopy(id uct.AMID, p uct.Packer) (int, error) {
	if e.refusing || id >= uct.MaxAMIDs || e.pending.Blocks() {
		return 0, e.refuse(id, 0)
	}
	for range maxTries {
		h := atomic.LoadUint64(e.head)
		if h&^armed-e.tail >= e.n || atomic.LoadUint32(e.addrLen) == 0 {
			if err := e.room(); err != nil {
				return 0, err
			}
			continue
		}
		// The descriptor is attached before the element is claimed: failing
		// afterwards would leave an element that nobody fills. It cannot change in
		// between unless somebody else claims the element.
		el := e.element(h)
		d := readDescriptor(el)
		most := e.i.o.bcopy
		mem := e.lastMem
		if d.seg != e.lastID || uint64(d.offset)+uint64(most) > uint64(len(mem)) {
			var err error
			if mem, err = e.attach(d, h); err != nil {
				return 0, err
			}
			if mem == nil {
				continue
			}
		}
		if !atomic.CompareAndSwapUint64(e.head, h, (h+1)&^armed) {
			continue
		}
		n := p.Pack(mem[d.offset : uint64(d.offset)+uint64(most) : uint64(d.offset)+uint64(most)])
		e.publish(el, h, 0, id, n)
		return n, nil
	}
	return 0, e.fail(errRestless())
}

// claim takes the next element of the peer's ring and returns the head it was
// at, for publish. It must be published.
func (e *endpoint) claim() (uint64, error) {
	for range maxTries {
		h := atomic.LoadUint64(e.head)
		if h&^armed-e.tail < e.n && atomic.LoadUint32(e.addrLen) != 0 {
			if atomic.CompareAndSwapUint64(e.head, h, (h+1)&^armed) {
				return h, nil
			}
		} else if err := e.room(); err != nil {
			return 0, err
		}
	}
	return 0, e.fail(errRestless())
}

// maxTries bounds how often claiming an element is tried while others are faster.
// No real senders are that often; a hostile owner of the ring could be.
const maxTries = 1 << 20

// element is the element of head h.
func (e *endpoint) element(h uint64) []byte {
	at := int(h&(e.n-1)) * e.elem
	return e.elems[at : at+e.elem]
}

// publish makes a claimed element the peer's and wakes it if it wants that.
func (e *endpoint) publish(el []byte, h uint64, flags uint32, id uct.AMID, n int) {
	if h&e.n != 0 {
		flags |= flagPhase
	}
	raceSent()
	word.StoreRelease32(word32(el, 0), elementWord(flags, uint8(id), n))
	if h&armed != 0 {
		e.i.sock.wake(e.wakeup)
	}
	e.foresee(int(h&(e.n-1)) * e.elem)
}

// foresee is told where the element is that was sent last, and prepares for what
// is likely to come. An answer to the next message goes to the element behind it,
// which Progress asks for as soon as there is a message: its receiver has been
// looking at it, and where the CPUs are far from each other getting it takes longer than
// handling a message. To ask for others in advance, on either side, does harm: who is
// ahead takes away what the other one is about to use.
func (e *endpoint) foresee(at int) {
	next := at + e.elem
	if next == len(e.elems) {
		next = 0
	}
	i := e.i
	i.likely = &e.elems[next]
}

// room looks at the peer's tail: nil when its ring has room, ucs.ErrNoResource
// when it is full. The endpoint fails when the ring is closed.
//
//go:noinline
func (e *endpoint) room() error {
	if atomic.LoadUint32(e.addrLen) == 0 {
		return e.fail(errClosed())
	}
	tail := atomic.LoadUint64(e.peer)
	used := atomic.LoadUint64(e.head)&^armed - tail
	e.tail = tail
	e.full = used >= e.n // more than that: others were faster, or nonsense
	if e.full {
		return ucs.ErrNoResource
	}
	raceReceived()
	return nil
}

// refuse says why a message of n bytes is not sent.
//
//go:noinline
func (e *endpoint) refuse(id uct.AMID, n int) error {
	switch {
	case e.refusing:
		return e.refusal()
	case id >= uct.MaxAMIDs:
		return kit.ErrAMID(id)
	case n > e.maxShort:
		return fmt.Errorf("shm: short message of %d bytes, at most %d: %w", n, e.maxShort, ucs.ErrInvalidParam)
	}
	return ucs.ErrNoResource
}

// refusal is why an endpoint accepts nothing any more.
func (e *endpoint) refusal() error {
	if e.failure != nil {
		return e.failure
	}
	return ucs.ErrNotConnected
}

// ready says whether an operation that needs no element may go on.
func (e *endpoint) ready() error {
	if e.refusing {
		return e.refusal()
	}
	if e.pending.Blocks() {
		return ucs.ErrNoResource
	}
	return nil
}

// Flush implements uct.Endpoint: what was accepted is in the peer's memory. With
// FlushCancel there is nothing to cancel; the endpoint accepts nothing more.
func (e *endpoint) Flush(flags uct.FlushFlags, _ *uct.Completion) error {
	if flags&uct.FlushCancel != 0 {
		e.refusing = true
		e.i.waiting.Leave(&e.pending)
		return nil
	}
	storeFence()
	return e.ready()
}

// Fence implements uct.Endpoint: operations happen in order, but what they do to
// memory is not seen in order by itself.
func (e *endpoint) Fence() error {
	word.Fence()
	return e.ready()
}

// Close implements uct.Endpoint. Messages that were accepted are in the peer's
// ring and stay there.
func (e *endpoint) Close() {
	if e.closed {
		return
	}
	e.closed, e.refusing = true, true
	e.i.waiting.Leave(&e.pending)
	e.i.forgetLook() // which may be at this ring
	table := &e.i.domain.attached
	for _, b := range e.segs {
		table.release(b.attachment)
	}
	table.release(e.seg)
	e.segs, e.lastMem, e.lastID = nil, nil, 0
	e.i.likely = nil
	e.i.endpoints.Remove(&e.place)
	e.i.watcher.End(&e.exit.watch)
	if e.unwakeable {
		e.i.wakeableAgain()
	}
}

//go:noinline
func errRestless() error {
	return fmt.Errorf("shm: the head of the peer's ring does not stop changing: %w", ucs.ErrConnectionReset)
}
