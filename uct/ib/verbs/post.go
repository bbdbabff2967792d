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
// The first error ends the batch, a full queue for example: its request is discarded, later
// calls do nothing, and Ring posts the requests before it and returns the error.
//
// A Post belongs to its queue pair, and to the goroutine that posts sends there. Nothing is
// allocated, and no argument is kept.
type Post struct {
	qp  *QP
	sq  provider.QP
	mem []byte        // of the send queue
	ops atomic.Uint32 // operations that can be posted now, a bit each
	wr  provider.WR   // what the request begins with

	err   error
	bound *MW    // windows that were bound since the last Ring
	n     int    // requests begun; the last may not be finished
	most  int    // pieces that a request may have
	room  int    // bytes of inline data, likewise
	own   trait  // of every request here
	plain uint32 // operations that are nothing but operands and data, a bit each
	last  request
}

// request is the request that was begun last: what may be added to it.
type request struct {
	from, at, end int    // in mem: inline data, and the room for more
	pieces        int    // that it may still have
	length        uint64 // of those it has
	trait         trait  // what it still needs, and cannot have
}

// inlined is how much inline data there is.
func (r *request) inlined() int { return r.at - r.from }

// forget leaves nothing that may be added to.
func (r *request) forget() { r.from, r.at, r.end, r.pieces, r.trait = 0, 0, 0, 0, 0 }

// trait is a property of an operation.
type trait uint8

const (
	needsAddress trait = 1 << iota // of a datagram
	needsWord                      // one piece of 8 bytes
	noInline                       // it fetches
	noData                         // neither pieces nor inline data
	oneWord                        // an atomic operation
	gathered                       // it has a piece
	whole                          // a bind: nothing is added to it, nor is it taken back

	needs = needsAddress | needsWord
)

// traits are those of the operations.
var traits = [16]trait{
	WRRDMARead: noInline, WRAtomicCmpAndSwp: oneWord | needsWord | noInline, WRAtomicFetchAndAdd: oneWord | needsWord | noInline,
	WRLocalInv: noData | noInline, WRBindMW: noData | noInline,
}

// sendFlags are all there are.
const sendFlags = SendFence | SendSignaled | SendSolicited | SendInline

// open prepares the Post of a new queue pair.
func (p *Post) open(q *QP, mem []byte) {
	p.qp, p.sq, p.mem, p.most, p.room = q, q.drv, mem, q.cap.MaxSendSGE, q.cap.MaxInline
	if q.typ == UD {
		p.own = needsAddress
	} else {
		p.plain = 1<<WRRDMAWrite | 1<<WRRDMAWriteWithImm | 1<<WRSend | 1<<WRSendWithImm
	}
}

// Begin begins a batch of requests. The queue pair has one Post: Begin discards requests
// that were begun on it without a Ring.
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

// SendInv begins a message that invalidates a window of the peer; WRSendWithInv.
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

// Read begins a read of the peer's memory into the pieces that SGE adds; WRRDMARead.
func (p *Post) Read(id uint64, flags SendFlags, addr uint64, key RKey) {
	p.wr.RemoteAddr, p.wr.RKey = addr, key
	p.begin(id, WRRDMARead, flags)
}

// CompareSwap begins a compare-and-swap of 8 bytes of the peer's memory; the previous value
// goes into one piece of 8 bytes. WRAtomicCmpAndSwp.
func (p *Post) CompareSwap(id uint64, flags SendFlags, addr uint64, key RKey, compare, swap uint64) {
	p.wr.RemoteAddr, p.wr.RKey, p.wr.CompareAdd, p.wr.Swap = addr, key, compare, swap
	p.begin(id, WRAtomicCmpAndSwp, flags)
}

// FetchAdd begins an addition to 8 bytes of the peer's memory; the previous value goes into
// one piece of 8 bytes. WRAtomicFetchAndAdd.
func (p *Post) FetchAdd(id uint64, flags SendFlags, addr uint64, key RKey, add uint64) {
	p.wr.RemoteAddr, p.wr.RKey, p.wr.CompareAdd, p.wr.Swap = addr, key, add, 0
	p.begin(id, WRAtomicFetchAndAdd, flags)
}

// BindMW begins the binding of a window, which has its new key from now on; WRBindMW.
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

// LocalInv invalidates a local window; WRLocalInv.
func (p *Post) LocalInv(id uint64, flags SendFlags, key RKey) {
	p.wr.Imm = uint32(key)
	p.begin(id, WRLocalInv, flags)
}

// To sets the destination of the datagram. A request of a UD queue pair needs it.
func (p *Post) To(ah *AH, qpn QPN, qkey QKey) {
	if p.err != nil || p.n == 0 || p.own&needsAddress == 0 || ah == nil || ah.pd != p.qp.pd || ah.handle == noHandle {
		p.noAddress()
		return
	}
	p.last.trait &^= needsAddress
	p.sq.Address(ah.drv, qpn, qkey)
}

// SGE adds a piece of memory to what the request sends, or to the destination of what it
// fetches.
func (p *Post) SGE(s SGE) {
	r := &p.last
	n := r.length + uint64(s.Length)
	if r.pieces <= 0 || r.inlined() != 0 || n > provider.MaxLength || r.trait&needsWord != 0 && s.Length != 8 {
		p.noPiece()
		return
	}
	r.pieces--
	r.length = n
	r.from, r.at = r.end, r.end
	r.trait = r.trait&^needsWord | gathered
	p.sq.Gather(s)
}

// Inline adds bytes to what the request sends. They are copied into the queue and may be
// reused at once. A request has either inline data or pieces of memory.
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

// Ring passes the requests to the device with one doorbell and returns their number. An
// error is that of the request after these, ucs.ErrNoResource if the queue is full; or that
// of the doorbell, in which case the next Ring that has requests, or neither requests nor
// an error, rings it again. Afterwards the Post is empty and can be used again.
func (p *Post) Ring() (int, error) {
	if p.last.trait&needs != 0 {
		p.unmet()
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
		p.rung()
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

// begin finishes the request before and begins another.
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
	t := traits[op&15] | p.own
	r := &p.last
	r.from, r.at, r.end, r.pieces, r.length, r.trait = from, from, to, p.most, 0, t
	if t&(noInline|noData) != 0 {
		p.limit()
	}
}

// limit takes away what the operation does not have.
func (p *Post) limit() {
	r := &p.last
	r.from, r.at = r.end, r.end
	switch {
	case r.trait&noData != 0:
		r.pieces = 0
	case r.trait&oneWord == 0:
	case p.wr.RemoteAddr%8 != 0:
		p.fail(errAtomic)
	default:
		r.pieces = min(r.pieces, 1)
	}
}

// finish ends the request begun last: nothing is left to do for it.
func (p *Post) finish() {
	if p.last.trait&needs != 0 {
		p.unmet()
		return
	}
	if n := p.last.inlined(); n != 0 {
		p.sq.Inlined(n)
	}
	p.last.forget()
}

// inlineMore is Inline where the room is not enough, or there is none.
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
	case r.trait&gathered != 0:
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
		r.from, r.at, r.end = from-r.inlined(), from, to // as if it were all before it
	}
}

// Where a request goes wrong. They say what a call is not for.

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
func (p *Post) unmet() {
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
	case p.own&needsAddress == 0:
		p.fail(errNotUD)
	default:
		p.fail(errNoAH)
	}
}

//go:noinline
func (p *Post) noPiece() {
	switch r := &p.last; {
	case p.n == 0:
		p.fail(errNoRequest)
	case r.inlined() != 0:
		p.fail(errMixed)
	case r.trait&noData != 0:
		p.fail(errNoData)
	case r.trait&oneWord != 0:
		p.fail(errAtomic)
	case r.pieces == 0:
		p.fail(provider.ErrManySGE)
	default:
		p.fail(provider.ErrTooLong)
	}
}

// fail takes the request back that was begun last, if none has failed yet. A
// bind stays, like all that is before the mistake.
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

// rung is told that the windows of the batch are bound for good.
func (p *Post) rung() {
	for p.bound != nil {
		p.bound = p.bound.rung()
	}
}

// drop forgets what was begun.
func (p *Post) drop() {
	for p.bound != nil {
		p.bound = p.bound.dropped()
	}
	if p.n != 0 {
		p.sq.Drop()
	}
	p.clear()
}
