//go:build linux

package verbs

import (
	"sync/atomic"

	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// Post is a batch of send requests that are written straight into the queue of a queue
// pair, without a SendWR in between. QP.Begin begins one:
//
//	p := qp.Begin()
//	p.Send(id, verbs.SendSignaled) // a request,
//	p.Inline(header)               // and what it sends
//	p.Inline(payload)
//	p.Write(id, 0, addr, rkey)     // another
//	p.SGE(mr.SGE(0, n))
//	n, err := p.Ring()
//
// A method with the name of an operation begins a request; the methods after it apply to
// that request, until the next one or Ring. The device sees nothing before Ring, which
// notifies it once of all requests. If the caller stops before Ring, or panics, the next
// Begin discards the batch.
//
// The flag SendInline is not needed: Inline implies it.
//
// The first error, for example that of a full queue, ends the batch: the failed request is
// discarded, later calls do nothing, and Ring posts the requests before it and returns the error.
//
// A Post belongs to its queue pair, and to the goroutine that posts sends there. The methods
// allocate nothing and keep no argument.
type Post struct {
	qp  *QP
	sq  provider.QP
	mem []byte        // memory of the send queue
	ops atomic.Uint32 // operations that can be posted in the current state: bits 1<<WROpcode
	wr  provider.WR   // the fixed part of the request being begun

	err       error
	bound     *MW    // list of the windows bound since the last Ring
	n         int    // requests begun since the last Ring; the last may be unfinished
	maxSGE    int    // largest number of scatter/gather elements of a request
	maxInline int    // largest number of bytes of inline data of a request
	qpTraits  trait  // traits of every request of this queue pair
	fastOps   uint32 // operations on the fast path of PostSend: bits 1<<WROpcode
	last      request
}

// request is the state of the request that was begun last. It says what may still be added to it.
type request struct {
	from, at, end int    // offsets in Post.mem: inline data is in from:at, space for more in at:end
	sgesLeft      int    // number of scatter/gather elements that may still be added
	length        uint64 // total bytes of the scatter/gather elements added
	trait         trait  // what the request still needs, and what it cannot have
}

// inlined returns the number of bytes of inline data that were added.
func (r *request) inlined() int { return r.at - r.from }

// forget ends the request: nothing can be added to it any more.
func (r *request) forget() { r.from, r.at, r.end, r.sgesLeft, r.trait = 0, 0, 0, 0, 0 }

// trait is a set of properties of an operation or a request.
type trait uint8

const (
	needsAddress trait = 1 << iota // a datagram whose destination is still missing
	needsWord                      // an atomic operation whose SGE of 8 bytes is still missing
	noInline                       // no inline data is possible: the operation fetches data
	noData                         // neither scatter/gather elements nor inline data are possible
	isAtomic                       // an atomic operation: exactly one SGE, of 8 bytes
	hasSGE                         // a scatter/gather element was added
	whole                          // a bind: nothing can be added, and it cannot be undone

	needs = needsAddress | needsWord
)

// traits are the traits of the operations, by WROpcode.
var traits = [16]trait{
	WRRDMARead: noInline, WRAtomicCmpAndSwp: isAtomic | needsWord | noInline, WRAtomicFetchAndAdd: isAtomic | needsWord | noInline,
	WRLocalInv: noData | noInline, WRBindMW: noData | noInline,
}

// sendFlags is the set of all SendFlags.
const sendFlags = SendFence | SendSignaled | SendSolicited | SendInline

// open prepares the Post of a new queue pair. mem is the memory of its send queue.
func (p *Post) open(q *QP, mem []byte) {
	p.qp, p.sq, p.mem, p.maxSGE, p.maxInline = q, q.drv, mem, q.cap.MaxSendSGE, q.cap.MaxInline
	if q.typ == UD {
		p.qpTraits = needsAddress
	} else {
		p.fastOps = 1<<WRRDMAWrite | 1<<WRRDMAWriteWithImm | 1<<WRSend | 1<<WRSendWithImm
	}
}

// Begin begins a batch of requests. Each queue pair has one Post, which Begin returns after it has
// discarded the requests that were begun on it and not posted by Ring.
func (q *QP) Begin() *Post {
	p := &q.post
	if p.n != 0 || p.err != nil {
		p.drop()
	}
	return p
}

// Send begins a message for a receive of the peer; WRSend.
func (p *Post) Send(id uint64, flags SendFlags) {
	p.begin(id, WRSend, flags)
}

// SendImm begins a message with an immediate value, which arrives unchanged; WRSendWithImm.
func (p *Post) SendImm(id uint64, flags SendFlags, imm uint32) {
	p.wr.Imm = imm
	p.begin(id, WRSendWithImm, flags)
}

// SendInv begins a message that invalidates the peer's memory window with the given key;
// WRSendWithInv.
func (p *Post) SendInv(id uint64, flags SendFlags, key RKey) {
	p.wr.Imm = uint32(key)
	p.begin(id, WRSendWithInv, flags)
}

// Write begins a write to the peer's memory; WRRDMAWrite.
func (p *Post) Write(id uint64, flags SendFlags, addr uint64, key RKey) {
	p.wr.RemoteAddr, p.wr.RKey = addr, key
	p.begin(id, WRRDMAWrite, flags)
}

// WriteImm begins a write with an immediate value that consumes a receive of the peer;
// WRRDMAWriteWithImm.
func (p *Post) WriteImm(id uint64, flags SendFlags, addr uint64, key RKey, imm uint32) {
	p.wr.RemoteAddr, p.wr.RKey, p.wr.Imm = addr, key, imm
	p.begin(id, WRRDMAWriteWithImm, flags)
}

// Read begins a read of the peer's memory into the local memory that SGE adds; WRRDMARead.
func (p *Post) Read(id uint64, flags SendFlags, addr uint64, key RKey) {
	p.wr.RemoteAddr, p.wr.RKey = addr, key
	p.begin(id, WRRDMARead, flags)
}

// CompareSwap begins a compare-and-swap of 8 bytes of the peer's memory; WRAtomicCmpAndSwp. SGE
// must add one element of 8 bytes, which receives the previous value.
func (p *Post) CompareSwap(id uint64, flags SendFlags, addr uint64, key RKey, compare, swap uint64) {
	p.wr.RemoteAddr, p.wr.RKey, p.wr.CompareAdd, p.wr.Swap = addr, key, compare, swap
	p.begin(id, WRAtomicCmpAndSwp, flags)
}

// FetchAdd begins an addition to 8 bytes of the peer's memory; WRAtomicFetchAndAdd. SGE must add
// one element of 8 bytes, which receives the previous value.
func (p *Post) FetchAdd(id uint64, flags SendFlags, addr uint64, key RKey, add uint64) {
	p.wr.RemoteAddr, p.wr.RKey, p.wr.CompareAdd, p.wr.Swap = addr, key, add, 0
	p.begin(id, WRAtomicFetchAndAdd, flags)
}

// BindMW adds the binding of a memory window, whose RKey changes at once; WRBindMW.
func (p *Post) BindMW(id uint64, flags SendFlags, b MWBind) {
	p.begin(id, WRBindMW, flags)
	if p.err != nil {
		return
	}
	pd := p.qp.pd
	if b.MW == nil || b.MR == nil || b.MW.pd != pd || b.MR.pd != pd || !b.MR.has(b.Addr, b.Length) {
		p.fail(errNoMW)
		return
	}
	old, key := b.MW.keys()
	if err := p.sq.Bind(provider.Bind{Addr: b.Addr, Length: b.Length, LKey: b.MR.lkey, Old: old, New: key, Access: uint32(b.Access)}); err != nil {
		p.fail(err)
		return
	}
	p.last.trait |= whole
	b.MW.bind(key, &p.bound)
}

// LocalInv adds the invalidation of the local memory window with the given key; WRLocalInv.
func (p *Post) LocalInv(id uint64, flags SendFlags, key RKey) {
	p.wr.Imm = uint32(key)
	p.begin(id, WRLocalInv, flags)
}

// To sets the destination of the datagram. Each request of a UD queue pair needs one.
func (p *Post) To(ah *AH, qpn QPN, qkey QKey) {
	if p.err != nil || p.n == 0 || p.qpTraits&needsAddress == 0 || ah == nil || ah.pd != p.qp.pd || ah.handle == noHandle {
		p.noAddress()
		return
	}
	p.last.trait &^= needsAddress
	p.sq.Address(ah.drv, qpn, qkey)
}

// SGE adds a scatter/gather element: memory with data that the request sends, or for the data that
// it fetches.
func (p *Post) SGE(s SGE) {
	r := &p.last
	n := r.length + uint64(s.Length)
	if r.sgesLeft <= 0 || r.inlined() != 0 || n > provider.MaxLength || r.trait&needsWord != 0 && s.Length != 8 {
		p.badSGE()
		return
	}
	r.sgesLeft--
	r.length = n
	r.from, r.at = r.end, r.end
	r.trait = r.trait&^needsWord | hasSGE
	p.sq.Gather(s)
}

// Inline adds bytes to the data that the request sends. They are copied into the queue, and b may
// be reused at once. A request has either inline data or scatter/gather elements.
func (p *Post) Inline(b []byte) {
	r := &p.last
	if len(b) > r.end-r.at {
		p.inlineMore(b)
		return
	}
	dst := p.mem[r.at:r.end]
	r.at += len(b)
	copy(dst, b)
}

// Err returns the first error of the batch, nil if there is none.
func (p *Post) Err() error { return p.err }

// Ring passes the requests of the batch to the device with one doorbell and returns their number.
// The error is that of the request that ended the batch (ucs.ErrNoResource if the queue is full),
// or that of the doorbell. After a doorbell error the next Ring rings the doorbell again, unless
// its batch has no requests but an error. Afterwards the Post is empty and can be used again.
func (p *Post) Ring() (int, error) {
	if p.last.trait&needs != 0 {
		p.missingPart()
	}
	n, inlined, err := p.n, p.last.inlined(), p.err
	if n == 0 {
		if err == nil && p.ops.Load() == 0 {
			err = errState
		}
		if err != nil {
			p.clear()
			return 0, err
		}
	}
	if p.bound != nil {
		p.windowsPosted()
	}
	p.n = 0
	p.last.forget()
	if err != nil {
		p.err = nil
	}
	if e := p.sq.Ring(inlined); e != nil {
		return n, e
	}
	return n, err
}

// begin finishes the previous request and begins another, whose operands are in p.wr.
func (p *Post) begin(id uint64, op WROpcode, flags SendFlags) {
	if p.last.inlined() != 0 || p.last.trait&needs != 0 {
		p.finish()
		p.begin(id, op, flags)
		return
	}
	if p.err != nil || p.ops.Load()>>op&1 == 0 || flags&^sendFlags != 0 {
		p.refuse(op, flags)
		return
	}
	p.wr.ID, p.wr.Opcode, p.wr.Flags, p.wr.Length = id, op, flags&^SendInline, 0
	from, to, ok := p.sq.Begin(&p.wr, nil)
	if !ok {
		p.full()
		return
	}
	p.n++
	t := traits[op&15] | p.qpTraits
	r := &p.last
	r.from, r.at, r.end, r.sgesLeft, r.length, r.trait = from, from, to, p.maxSGE, 0, t
	if t&(noInline|noData) != 0 {
		p.limit()
	}
}

// limit reduces what may be added to the request to what its operation takes: no data, no inline
// data, or one scatter/gather element. It fails if the address of an atomic operation is not
// aligned.
func (p *Post) limit() {
	r := &p.last
	r.from, r.at = r.end, r.end
	switch {
	case r.trait&noData != 0:
		r.sgesLeft = 0
	case r.trait&isAtomic == 0:
	case p.wr.RemoteAddr%8 != 0:
		p.fail(errAtomic)
	default:
		r.sgesLeft = min(r.sgesLeft, 1)
	}
}

// finish completes the request that was begun last. The batch fails if a part of it is missing.
func (p *Post) finish() {
	if p.last.trait&needs != 0 {
		p.missingPart()
		return
	}
	if n := p.last.inlined(); n != 0 {
		p.sq.Inlined(n)
	}
	p.last.forget()
}

// inlineMore does the work of Inline if the current space for inline data is too small, because the
// space wraps around the end of the queue or because the request cannot have the data.
func (p *Post) inlineMore(b []byte) {
	r := &p.last
	switch {
	case p.err != nil:
		return
	case p.n == 0:
		p.fail(errNoRequest)
		return
	case r.trait&(noInline|noData) != 0:
		p.fail(errInlineWhat)
		return
	case r.trait&hasSGE != 0:
		p.fail(errMixed)
		return
	}
	for {
		n := copy(p.mem[r.at:r.end], b)
		r.at += n
		if b = b[n:]; len(b) == 0 {
			return
		}
		from, to := p.sq.More()
		if from == to {
			p.fail(errInlineLong)
			return
		}
		r.from, r.at, r.end = from-r.inlined(), from, to // inlined still counts all bytes
	}
}

// The error paths, in functions that are not inlined. Each determines the error of a call.

//go:noinline
func (p *Post) refuse(op WROpcode, flags SendFlags) {
	p.last.forget()
	switch {
	case p.err != nil:
	case p.ops.Load() == 0:
		p.err = errState
	case flags&^sendFlags != 0:
		p.err = errFlags
	default:
		p.err = p.qp.refusal(op)
	}
}

//go:noinline
func (p *Post) full() {
	p.last.forget()
	p.err = provider.ErrQueueFull
}

//go:noinline
func (p *Post) missingPart() {
	if p.last.trait&needsAddress != 0 {
		p.fail(errNoAH)
	} else {
		p.fail(errAtomic)
	}
}

//go:noinline
func (p *Post) noAddress() {
	switch {
	case p.n == 0:
		p.fail(errNoRequest)
	case p.qpTraits&needsAddress == 0:
		p.fail(errNotUD)
	default:
		p.fail(errNoAH)
	}
}

//go:noinline
func (p *Post) badSGE() {
	switch r := &p.last; {
	case p.n == 0:
		p.fail(errNoRequest)
	case r.inlined() != 0:
		p.fail(errMixed)
	case r.trait&noData != 0:
		p.fail(errNoData)
	case r.trait&isAtomic != 0:
		p.fail(errAtomic)
	case r.sgesLeft == 0:
		p.fail(provider.ErrTooManySGE)
	default:
		p.fail(provider.ErrTooLong)
	}
}

// fail records the first error of the batch and undoes the request that was begun last. A bind
// stays in the batch, as do all requests before the error.
func (p *Post) fail(err error) {
	if p.err != nil {
		return
	}
	p.err = err
	back := p.n > 0 && p.last.trait&whole == 0
	p.last.forget()
	if back {
		p.n--
		p.sq.Undo()
	}
}

// clear makes the Post empty.
func (p *Post) clear() {
	p.n, p.err = 0, nil
	p.last.forget()
}

// windowsPosted empties the list of bound windows, when Ring posts their binds.
func (p *Post) windowsPosted() {
	for p.bound != nil {
		p.bound = p.bound.bindsPosted()
	}
}

// drop discards the batch. Windows in it have their previous keys again.
func (p *Post) drop() {
	for p.bound != nil {
		p.bound = p.bound.bindsDropped()
	}
	if p.n != 0 {
		p.sq.Drop()
	}
	p.clear()
}
