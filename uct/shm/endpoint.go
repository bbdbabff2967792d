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
	"github.com/ucx-go/ucx/uct/kit"
)

// endpoint sends to a peer by writing to the peer's ring.
type endpoint struct {
	uct.NoAM
	uct.NoRMA
	txRing
	fenced     bool // the ring or a segment of its descriptors can shrink
	refusing   bool // the endpoint accepts no operation any more
	closed     bool
	unwakeable bool // the peer cannot wake this worker
	full       bool // the ring had no room when its tail was read last
	limit      int  // length up to which AMShort sends at once: that of maxShort, or 0 until amShortSlow has found no reason against it
	pending    kit.Queue
	i          *iface

	lastID  uint64    // id of the segment whose receive buffers were used last
	lastMem []byte    // memory of that segment
	segs    []buffers // attached segments of receive buffers, sorted by id
	mapped  int       // bytes in segs

	failure error
	user    any
	rounds  uint                // rounds of progress in which the endpoint has waited for room
	place   kit.Node[*endpoint] // node in iface.endpoints
	ended   bool                // the endpoint is in iface.ended
	exit    exitCheck
}

var _ interface {
	uct.Endpoint
	uct.RMA
	uct.Atomic
	uct.ProcessEndpoint
} = (*endpoint)(nil)

// headerLen is the length of the header of AMShort.
const headerLen = 8

// AMShort implements uct.Endpoint. A message costs one compare-and-swap, one copy and one store.
// Unusual cases are handled by amShortSlow. amShort handles a ring that looks full or closed, and a
// head that another sender has just moved.
func (e *endpoint) AMShort(id uct.AMID, header uint64, payload []byte, _ uct.SendFlags, _ *uct.Completion) error {
	n := headerLen + len(payload)
	if n > e.limit || id >= uct.MaxAMIDs {
		return e.amShortSlow(id, header, payload)
	}
	// Three conditions, because the compiler makes a value of an atomic operation in a longer one.
	h, size := atomic.LoadUint64(e.head), e.n
	if h&^armed-e.tail >= size {
		return e.amShort(id, header, payload)
	}
	if atomic.LoadUint32(e.addrLen) == 0 {
		return e.amShort(id, header, payload)
	}
	if !atomic.CompareAndSwapUint64(e.head, h, (h+1)&^armed) {
		return e.amShort(id, header, payload)
	}
	at := int(h&(size-1)) * e.elem
	el := elementAt(e.elems, at)
	binary.LittleEndian.PutUint64(el[elemPayload:], header)
	if len(payload) == 8 { // this copy needs no call
		*(*[8]byte)(el[elemPayload+headerLen:]) = [8]byte(payload)
	} else if len(payload) > 0 {
		copy(e.elems[at+elemPayload+headerLen:], payload)
	}
	// The same as publish: calling publish would cost as much as these lines.
	flags := uint32(flagInline)
	if h&size != 0 {
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
	if n := headerLen + len(payload); e.refusing || n > e.maxShort() || id >= uct.MaxAMIDs || e.pending.Blocks() {
		return e.refuse(id, n)
	}
	if !e.fenced {
		if e.pending.Empty() {
			e.limit = e.maxShort()
		}
		return e.amShort(id, header, payload)
	}
	var f fault.Fence
	f.Begin()
	defer f.End(e, nil, &err)
	e.limit = e.maxShort() // this call is the fence
	err = e.AMShort(id, header, payload, 0, nil)
	e.limit = 0
	f.Passed()
	return err
}

// maxShort is the length of the longest message, with its header, that fits into an element.
func (e *endpoint) maxShort() int { return e.elem - elemPayload }

// refuseAll makes the endpoint accept no operation any more.
func (e *endpoint) refuseAll() { e.refusing, e.limit = true, 0 }

// fence makes all accesses to the peer's memory go through a fence (internal/fault).
func (e *endpoint) fence() { e.fenced, e.limit = true, 0 }

// amShort sends a message that has passed the checks of AMShort.
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
	if e.refusing || n > e.maxShort() || id >= uct.MaxAMIDs || e.pending.Blocks() {
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
		// The descriptor's segment is attached before the element is claimed: a failure
		// after the claim would leave an element that is never filled. The descriptor
		// cannot change in between unless another sender claims the element.
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

// claim takes the next element of the peer's ring and returns the head at which the
// element was claimed, for publish. The caller must publish the element.
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

// maxTries bounds how often claiming an element is tried while other senders claim it first.
// Real senders do not win that often in a row; a hostile owner of the ring could.
const maxTries = 1 << 20

// element returns the element that is claimed at head h.
func (e *endpoint) element(h uint64) []byte {
	at := int(h&(e.n-1)) * e.elem
	return e.elems[at : at+e.elem]
}

// publish hands a claimed element over to the peer, and wakes the peer if its ring was armed
// when the element was claimed.
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

// foresee stores the element that the next send is likely to write, for a prefetch. at is
// the position of the element that was sent last. A reply to the next received message goes
// to the element after that one, so receive prefetches this element for writing as soon as
// there is a message. The peer has been polling the element, and between CPUs that are far
// from each other fetching its cache line takes longer than handling a message. Prefetching
// other elements, on either side, does harm: the side that is ahead takes away cache lines
// that the other side is about to use.
func (e *endpoint) foresee(at int) {
	next := at + e.elem
	if next == len(e.elems) {
		next = 0
	}
	e.i.likely = addressOf(e.elems) + uint64(next)
}

// room reads the peer's tail. It returns nil when the peer's ring has room and
// ucs.ErrNoResource when the ring is full. The endpoint fails when the ring is closed.
//
//go:noinline
func (e *endpoint) room() error {
	if atomic.LoadUint32(e.addrLen) == 0 {
		return e.fail(errClosed())
	}
	tail := atomic.LoadUint64(e.peer)
	used := atomic.LoadUint64(e.head)&^armed - tail
	e.tail = tail
	e.full = used >= e.n // above n: other senders have claimed since, or the values are invalid
	if e.full {
		return ucs.ErrNoResource
	}
	raceReceived()
	return nil
}

// refuse returns the error for a message of n bytes that is not sent.
//
//go:noinline
func (e *endpoint) refuse(id uct.AMID, n int) error {
	switch {
	case e.refusing:
		return e.refusal()
	case id >= uct.MaxAMIDs:
		return kit.ErrAMID(id)
	case n > e.maxShort():
		return fmt.Errorf("shm: short message of %d bytes, at most %d: %w", n, e.maxShort(), ucs.ErrInvalidParam)
	}
	return ucs.ErrNoResource
}

// refusal returns the error of an endpoint that accepts nothing any more.
func (e *endpoint) refusal() error {
	if e.failure != nil {
		return e.failure
	}
	return ucs.ErrNotConnected
}

// ready returns nil if an operation that needs no element of the ring may start.
func (e *endpoint) ready() error {
	if e.refusing {
		return e.refusal()
	}
	if e.pending.Blocks() {
		return ucs.ErrNoResource
	}
	return nil
}

// Flush implements uct.Endpoint: accepted operations are in the peer's memory already. With
// FlushCancel there is nothing to cancel; the endpoint accepts nothing more.
func (e *endpoint) Flush(flags uct.FlushFlags, _ *uct.Completion) error {
	if flags&uct.FlushCancel != 0 {
		e.refuseAll()
		e.i.waiting.Leave(&e.pending)
		return nil
	}
	storeFence()
	return e.ready()
}

// Fence implements uct.Endpoint: operations are executed in order, but without a memory
// barrier their effects on memory need not become visible in order.
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
	e.closed = true
	e.refuseAll()
	e.i.waiting.Leave(&e.pending)
	e.i.dropCachedRing() // the cached ring may be this one
	table := &e.i.domain.attached
	for _, b := range e.segs {
		table.release(b.attachment)
	}
	table.release(e.seg)
	e.segs, e.lastMem, e.lastID = nil, nil, 0
	e.i.likely = 0
	e.i.endpoints.Remove(&e.place)
	e.i.watcher.End(&e.exit.watch)
	if e.unwakeable {
		e.i.wakeableAgain()
	}
}

//go:noinline
func errRestless() error {
	return fmt.Errorf("shm: the head of the peer's ring changes too often to claim an element: %w", ucs.ErrConnectionReset)
}
