package ucp

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// AtomicOp is an atomic operation (enum ucp_atomic_op_t).
type AtomicOp uint8

// Atomic operations, with C's numbers. The comments give the new value of the word: X is the
// operand, Y the previous value. Arithmetic wraps around.
const (
	AtomicAdd         AtomicOp = 0 // Y + X
	AtomicSwap        AtomicOp = 1 // X; needs a reply buffer
	AtomicCompareSwap AtomicOp = 2 // value in the reply buffer, which is needed, if Y equals X; else Y
	AtomicAnd         AtomicOp = 3 // Y and X
	AtomicOr          AtomicOp = 4 // Y or X
	AtomicXor         AtomicOp = 5 // Y xor X

	numAtomicOps = 6
)

// transportOps maps the operations to their numbers in transports and messages (uct_atomic_op_t).
var transportOps = [numAtomicOps]uct.AtomicOp{
	AtomicAdd: uct.AtomicAdd, AtomicSwap: uct.AtomicSwap, AtomicCompareSwap: uct.AtomicCSwap,
	AtomicAnd: uct.AtomicAnd, AtomicOr: uct.AtomicOr, AtomicXor: uct.AtomicXor,
}

// amoFamily is the family of atomic operations on registered memory of the peer.
type amoFamily struct{ noFamily }

func (amoFamily) about() familyInfo {
	return familyInfo{name: "amo", features: FeatureAMO32 | FeatureAMO64}
}

func (amoFamily) handlers(w *Worker) []handler {
	return []handler{{proto.IDAtomicReq, w.rma.onAtomicReq}, {proto.IDAtomicRep, w.rma.onAtomicRep}}
}

// callAtomic holds the flags and parameters that Endpoint.Atomic accepts.
var callAtomic = callRule{"an atomic operation", accessFlags, paramOnSend | paramMemoryType | paramReplyBuffer}

// atomicOp is the state of an atomic operation in flight, or of the reply to an atomic operation of
// the peer.
type atomicOp struct {
	op      uct.AtomicOp
	size    uint8 // 4 or 8 bytes
	value   uint64
	compare uint64
	old32   uint32
	old64   uint64
	packed  [8]byte
}

// Atomic changes the 4 or 8 bytes at raddr in the peer's memory, which key gives access to.
// The operand has the same size and the byte order of this machine. raddr must be a
// multiple of the size.
//
// With RequestParams.ReplyBuffer, of the same size, the operation is done when the previous value
// has been stored there. AtomicCompareSwap takes the new value from the reply buffer. Without a
// reply buffer the operation is done in the call, even if it has not been sent yet: the result is
// nil and no callback runs, unless OpNoImmediate is set. The operation has taken effect at the peer
// when a later flush is done.
func (ep *Endpoint) Atomic(op AtomicOp, operand []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.Atomic", ep == nil)
	}
	w := ep.w
	if !w.owner.tryAcquire() {
		return w.rma.delegateAtomic(ep, op, operand, raddr, key, p)
	}
	if p == nil || len(operand) != 8 || len(p.ReplyBuffer) != 8 || op >= numAtomicOps || op == AtomicCompareSwap ||
		raddr&7 != 0 || key == nil || key.ep != ep || w.ctx.params.Features&FeatureAMO64 == 0 || !p.plainFetch() {
		r, err := ep.w.rma.atomic(ep, op, operand, raddr, key, p)
		w.owner.release()
		return r, err
	}
	way := key.amo64
	if way == nil || key.closed || !ep.ready() {
		r, err := ep.w.rma.checkedAtomic(ep, op, operand, raddr, key, p)
		w.owner.release()
		return r, err
	}
	r := w.pool.spare // fetchDirect, reduced to 64-bit operations other than compare-and-swap
	r.proto = atomicDirect{}
	a := &r.w.rma.accessing(r).atomic
	err := ep.lanes[way.lane].remote.Atomic64Fetch(transportOps[op], binary.NativeEndian.Uint64(operand), &a.old64, raddr, way.key, &r.comp)
	if err == nil {
		binary.NativeEndian.PutUint64(p.ReplyBuffer, a.old64)
		w.stats.Atomics++
		ep.markDirect()
		w.owner.release()
		return nil, nil
	}
	r, err = ep.w.rma.fetched(ep, err, op, operand, raddr, key, p)
	w.owner.release()
	return r, err
}

// fetched continues Atomic after the transport has returned err: ucs.InProgress if it has started
// the operation, another error if it has not.
func (rm *rmaState) fetched(ep *Endpoint, err error, op AtomicOp, operand []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	if err != ucs.InProgress {
		return ep.w.rma.checkedAtomic(ep, op, operand, raddr, key, p) // queues it, or returns the full error
	}
	ep.w.stats.Atomics++
	return ep.w.rma.fetchStarted(ep, op, operand, key, key.amo64, p), nil
}

// delegateAtomic delegates an atomic operation to the goroutine that owns the worker.
func (rm *rmaState) delegateAtomic(ep *Endpoint, op AtomicOp, operand []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	w := ep.w
	if err := w.rma.checkAtomic(ep, op, operand, raddr, key, p); err != nil {
		return nil, err
	}
	c := w.newCall(startAtomic).with(p)
	c.ep, c.op, c.raddr, c.key, c.rule = ep, op, raddr, key, &callAtomic
	c.buf = c.operand[:copy(c.operand[:], operand)]
	c.detached = p == nil || p.ReplyBuffer == nil && p.Flags&OpNoImmediate == 0
	return c.delegate()
}

// startAtomic is call.start of atomic operations that are delegated to another goroutine or waited
// for.
func startAtomic(c *call) (*Request, error) {
	return c.ep.w.rma.atomic(c.ep, c.op, c.buf, c.raddr, c.key, c.p)
}

func (rm *rmaState) atomic(ep *Endpoint, op AtomicOp, operand []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	if err := ep.w.rma.checkAtomic(ep, op, operand, raddr, key, p); err != nil {
		return nil, err
	}
	return ep.w.rma.checkedAtomic(ep, op, operand, raddr, key, p)
}

// checkedAtomic is atomic for arguments that were checked.
func (rm *rmaState) checkedAtomic(ep *Endpoint, op AtomicOp, operand []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	if !key.opens(ep) {
		return nil, ep.wrongKey("an atomic operation", key)
	}
	if err := ep.usable(); err != nil {
		return nil, err
	}
	var reply []byte
	var attr OpFlags
	if p != nil {
		reply, attr = p.ReplyBuffer, p.Flags
	}
	ep.w.stats.Atomics++
	way := key.amo64
	if len(operand) == 4 {
		way = key.amo32
	}
	if reply == nil && attr&OpNoImmediate == 0 {
		return nil, ep.post(op, operand, raddr, key, way, attr)
	}
	if reply != nil && way != nil && ep.ready() && p.plainAtomic() {
		r, err := ep.w.rma.fetchDirect(ep, op, operand, raddr, key, way, p)
		if err != ucs.ErrNoResource {
			return r, err
		}
	}
	r, err := ep.w.pool.useRequest(p)
	if err != nil {
		return nil, err
	}
	r.w.rma.target(r, ep, key, raddr).atomic.set(op, operand, reply)
	r.data.SetBytes(reply)
	r.op = atomicOperation{}
	if attr&OpForceImmediate != 0 {
		return ep.fetchNow(r, way)
	}
	ep.submit(r)
	return r.result()
}

// atomicOperation is the operation of changing a word of the peer's memory. It fetches the previous
// value if the request has a reply buffer.
type atomicOperation struct{}

func (atomicOperation) name() string { return "atomic" }

func (atomicOperation) choose(r *Request) (protocol, error) {
	a := r.access
	if a.key.closed {
		return nil, errKeyClosed
	}
	way := a.key.amo64
	if a.atomic.size == 4 {
		way = a.key.amo32
	}
	r.w.selection.countAtomic(r, a.key.tables, int(a.atomic.size))
	switch {
	case way != nil:
		return atomicDirect{}, r.w.rma.setLane(r, way)
	case r.data.Length == 0:
		r.ep.w.rma.markMessages(r.ep)
		return atomicPost{}, nil
	}
	return atomicFetch{}, r.w.rma.assignID(r)
}

// checkAtomic checks the arguments of an atomic operation, independently of the endpoint's state.
func (rm *rmaState) checkAtomic(ep *Endpoint, op AtomicOp, operand []byte, raddr uint64, key *Rkey, p *RequestParams) error {
	feature := FeatureAMO64
	if len(operand) == 4 {
		feature = FeatureAMO32
	}
	var reply []byte
	if p != nil {
		reply = p.ReplyBuffer
		if err := callAtomic.check(operand, p); err != nil {
			return err
		}
	}
	switch n := len(operand); {
	case op >= numAtomicOps:
		return errAtomic("unknown operation")
	case n != 4 && n != 8:
		return errAtomic("the operand must have 4 or 8 bytes")
	case raddr%uint64(n) != 0:
		return errAtomic("the address is not a multiple of the size")
	case ep.w.ctx.params.Features&feature == 0:
		return errAtomic("the context does not have the feature")
	case key == nil || key.ep != ep:
		return ep.wrongKey("an atomic operation", key)
	case reply == nil && (op == AtomicSwap || op == AtomicCompareSwap):
		return errAtomic("a swap needs a reply buffer")
	case reply != nil && len(reply) != n:
		return errAtomic("the reply buffer must have the size of the operand")
	}
	return nil
}

//go:noinline
func errAtomic(reason string) error {
	return fmt.Errorf("ucp: atomic operation: %s: %w", reason, ucs.ErrInvalidParam)
}

// set stores the operation and its operands. For a compare-and-swap, reply contains the new value.
func (a *atomicOp) set(op AtomicOp, operand, reply []byte) {
	a.op, a.size = transportOps[op], uint8(len(operand))
	a.value = loadWord(operand)
	if op == AtomicCompareSwap {
		a.compare, a.value = a.value, loadWord(reply)
	}
}

func loadWord(b []byte) uint64 {
	if len(b) == 4 {
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

func storeWord(b []byte, v uint64) {
	if len(b) == 4 {
		binary.NativeEndian.PutUint32(b, uint32(v))
	} else {
		binary.NativeEndian.PutUint64(b, v)
	}
}

// post starts an operation without a result; its completion is not reported to the caller. way is a
// lane that accesses the memory directly, nil if there is none. post fails only with
// OpForceImmediate, or with the error of the transport.
func (ep *Endpoint) post(op AtomicOp, operand []byte, raddr uint64, key *Rkey, way *rkeyLane, attr OpFlags) error {
	v := loadWord(operand)
	if way != nil && ep.ready() {
		err := postWord(ep.lanes[way.lane].remote, transportOps[op], uint8(len(operand)), v, raddr, way.key)
		if err != ucs.ErrNoResource {
			ep.markDirect()
			return err
		}
	}
	now := attr&OpForceImmediate != 0
	if now && (way != nil || !ep.ready() || ep.remoteID == 0) {
		return ucs.ErrNoResource
	}
	r := ep.control(nil)
	r.w.rma.target(r, ep, key, raddr).atomic.set(op, operand, nil)
	r.data.SetBytes(nil) // no result
	r.op = atomicOperation{}
	if now {
		r.proto = atomicPost{}
		ep.w.rma.markMessages(ep)
		err := sendPost(r, uct.SendNow)
		ep.w.pool.dropRequest(r)
		return err
	}
	ep.submit(r)
	return nil
}

func postWord(ue uct.Atomic, op uct.AtomicOp, size uint8, v, raddr uint64, key *uct.Rkey) error {
	if size == 4 {
		return ue.Atomic32Post(op, uint32(v), raddr, key)
	}
	return ue.Atomic64Post(op, v, raddr, key)
}

// atomicDirect does the operation directly on the peer's memory.
type atomicDirect struct{ direct }

func (atomicDirect) about() protocolInfo {
	return protocolInfo{name: "atomic", kind: kindAccess, needs: needFence}
}

func (p atomicDirect) progress(r *Request) error {
	x, ue := r.access, r.ep.remote(r.lane)
	a := &x.atomic
	var err error
	if r.data.Length == 0 {
		err = postWord(ue, a.op, a.size, a.value, x.addr, x.route.key)
	} else {
		err = a.fetch(ue, x.addr, x.route.key, &r.comp)
	}
	switch err {
	case nil:
		p.completed(r, nil)
	case ucs.InProgress:
	default:
		return err
	}
	return nil
}

// completed stores the previous value in the reply buffer, if there is one, and ends the request.
func (atomicDirect) completed(r *Request, err error) {
	if err == nil && r.data.Length > 0 {
		storeWord(r.data.Buf, r.access.atomic.old())
	}
	r.finish(err)
}

// fetchDirect does an operation with a result by one call of the transport. If the transport
// completes the operation later, the worker's spare request (pool.spare) becomes the operation's
// request and is returned; otherwise the returned request is nil.
func (rm *rmaState) fetchDirect(ep *Endpoint, op AtomicOp, operand []byte, raddr uint64, key *Rkey, way *rkeyLane, p *RequestParams) (*Request, error) {
	r := ep.w.pool.spare // used only if the operation goes on after the call
	a := &rm.accessing(r).atomic
	a.set(op, operand, p.ReplyBuffer)
	r.proto = atomicDirect{}
	err := a.fetch(ep.lanes[way.lane].remote, raddr, way.key, &r.comp)
	switch err {
	case nil:
		ep.markDirect()
		storeWord(p.ReplyBuffer, a.old())
		return nil, nil
	case ucs.InProgress:
		return rm.fetchStarted(ep, op, operand, key, way, p), nil
	}
	return nil, err
}

// fetchStarted turns the worker's spare request, whose completion the transport already refers to,
// into the request of the operation in flight, and returns it.
func (rm *rmaState) fetchStarted(ep *Endpoint, op AtomicOp, operand []byte, key *Rkey, way *rkeyLane, p *RequestParams) *Request {
	w := ep.w
	r := w.pool.spare
	w.pool.nextSpare()
	ep.markDirect()
	r.access.atomic.set(op, operand, p.ReplyBuffer)
	r.adoptSpare(ep, key, way, p)
	r.data.SetBytes(p.ReplyBuffer)
	return r
}

// fetch starts an operation with a result in the transport. If fetch returns ucs.InProgress, the
// transport completes c later.
func (a *atomicOp) fetch(ue uct.Atomic, raddr uint64, key *uct.Rkey, c *uct.Completion) error {
	switch {
	case a.op == uct.AtomicCSwap && a.size == 4:
		return ue.AtomicCSwap32(uint32(a.compare), uint32(a.value), raddr, key, &a.old32, c)
	case a.op == uct.AtomicCSwap:
		return ue.AtomicCSwap64(a.compare, a.value, raddr, key, &a.old64, c)
	case a.size == 4:
		return ue.Atomic32Fetch(a.op, uint32(a.value), &a.old32, raddr, key, c)
	}
	return ue.Atomic64Fetch(a.op, a.value, &a.old64, raddr, key, c)
}

// old returns the result, the previous value.
func (a *atomicOp) old() uint64 {
	if a.size == 4 {
		return uint64(a.old32)
	}
	return a.old64
}

// fetchNow does an operation with a result before it returns. If that is not possible, it returns
// an error and the operation is not done.
func (ep *Endpoint) fetchNow(r *Request, way *rkeyLane) (*Request, error) {
	// Only transports that do the operation with the CPU are tried: an operation that another
	// transport would finish later could not be taken back.
	if way == nil || !way.attr.Flags.Has(uct.IfaceAtomicCPU) || !ep.ready() {
		ep.w.pool.dropRequest(r)
		return nil, ucs.ErrNoResource
	}
	r.proto = atomicDirect{}
	r.w.rma.setLane(r, way)
	if err := r.proto.progress(r); err != nil {
		ep.w.pool.dropRequest(r)
		return nil, err
	}
	return r.result()
}

// Atomic operations by messages: the peer's worker carries out an ATOMIC_REQ, and answers it by a
// CMPL if no result is wanted, and by an ATOMIC_REP otherwise.

// atomicPost is the protocol of an operation by messages without a result.
type atomicPost struct{ basics }

func (atomicPost) about() protocolInfo {
	return protocolInfo{name: "atomic by messages", kind: kindMessages, needs: needID | needFence}
}

func (atomicPost) progress(r *Request) error {
	if err := sendPost(r, 0); err != nil {
		return err
	}
	r.finish(nil)
	return nil
}

func (atomicPost) pack(r *Request, dst []byte) int { return packAtomicReq(r, dst) }

// atomicFetch is the protocol of an operation by messages with a result.
type atomicFetch struct{ basics }

func (atomicFetch) about() protocolInfo {
	return protocolInfo{name: "fetching atomic by messages", kind: kindFetch, needs: needID | needFence}
}

func (atomicFetch) progress(r *Request) error { return r.w.rma.ask(r, proto.IDAtomicReq) }

func (atomicFetch) pack(r *Request, dst []byte) int { return packAtomicReq(r, dst) }

// sendPost sends the ATOMIC_REQ of an operation without a result.
func sendPost(r *Request, flags uct.SendFlags) error {
	f := r.ep.flow()
	f.posted++ // before the call: the answer may arrive during the call
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDAtomicReq), r.hooks(), flags, nil)
	if err != nil && err != ucs.InProgress {
		f.posted--
		return err
	}
	return nil
}

func packAtomicReq(r *Request, dst []byte) int {
	a := &r.access.atomic
	return proto.AtomicReq{
		Address: r.access.addr,
		EpID:    r.ep.remoteID,
		ReqID:   proto.RequestID(r.localID), // 0 without a result
		Size:    a.size,
		Op:      a.op,
		Value:   a.value,
		Compare: a.compare,
	}.Put(dst)
}

// onAtomicReq handles an ATOMIC_REQ: it carries out the peer's operation on a word of this process.
func (rm *rmaState) onAtomicReq(source *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := rm.w
	h, err := proto.ParseAtomicReq(data)
	if err != nil {
		return w.logMalformed(err)
	}
	from := w.accounts.sourceOf(source)
	if h.ReqID != 0 && from.tooManyRequests() {
		return w.logMalformed(errServing)
	}
	ep, mem, b, err := rm.messageTarget(source, h.EpID, h.Address, int(h.Size), uct.AccessRemoteAtomic)
	if err != nil {
		return err
	}
	old := applyAtomic(b, &h)
	mem.Release()
	w.stats.Served++
	if h.ReqID == 0 {
		ep.addCompletionOwed()
		return nil
	}
	r := ep.control(atomicReply{})
	r.peerID = uint64(h.ReqID)
	a := &rm.accessing(r).atomic
	a.size = h.Size
	storeWord(a.packed[:h.Size], old)
	rm.serve(from, ep, r, nil)
	return nil
}

// applyAtomic carries out the checked request h on the word in b and returns the previous value.
func applyAtomic(b []byte, h *proto.AtomicReq) (old uint64) {
	switch {
	case h.Op == uct.AtomicCSwap && h.Size == 4:
		return uint64(word.CompareSwap32(b, uint32(h.Compare), uint32(h.Value)))
	case h.Op == uct.AtomicCSwap:
		return word.CompareSwap64(b, h.Compare, h.Value)
	case h.Size == 4:
		v, _ := h.Op.Do32(b, uint32(h.Value))
		return uint64(v)
	}
	old, _ = h.Op.Do64(b, h.Value)
	return old
}

// atomicReply answers a request with the previous value (ATOMIC_REP).
type atomicReply struct{ answer }

func (atomicReply) about() protocolInfo {
	return protocolInfo{name: "atomic reply", kind: kindAnswer, needs: needID}
}

func (atomicReply) progress(r *Request) error {
	a := &r.access.atomic
	err := r.ep.ue.AMShort(uct.AMID(proto.IDAtomicRep), r.peerID, a.packed[:a.size], 0, nil)
	return controlSent(r, err)
}

// onAtomicRep receives an ATOMIC_REP: the previous value, for a fetching operation of this worker.
func (rm *rmaState) onAtomicRep(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := rm.w
	h, err := proto.ParseAtomicRep(data)
	if err != nil {
		return w.logMalformed(err)
	}
	r := w.pool.requestIDs.Get(uint64(h.ReqID))
	if !r.is(kindFetch) {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, r.ep) {
		return nil
	}
	if h.Size != r.access.atomic.size {
		return w.logMalformed(errAtomicReply)
	}
	storeWord(r.data.Buf, h.Value)
	rm.answered(r)
	return nil
}

var errAtomicReply = &proto.FormatError{What: "atomic reply", Reason: "size differs from that of the request", Status: ucs.ErrIO}
