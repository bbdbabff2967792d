package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/rangeset"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// One-sided operations take one of these ways, by what the key opens:
//
//	put short, put and get copied   a transport call for each piece (rma_pieces.go)
//	put, get zero-copy              straight between the user's memory and the peer's
//	messages                        PUT, GET_REQ: the peer's worker does it (rma_messages.go)
//
// A put is done when its buffer may be reused; only a flush says that it has
// taken effect (flush.go).

// The protocols that reach the peer's memory directly.
var putShort, putCopy, putZcopy, getCopy, getZcopy protocol

func init() {
	putShort = protocol{name: "put short", progress: progressPutCopy, completed: (*Request).finish, piece: nextPieces}
	putCopy = protocol{name: "put copy-in", progress: progressPutCopy, completed: (*Request).finish, pack: packPutData, piece: nextPieces}
	putZcopy = protocol{name: "put zero-copy", progress: progressPutZcopy, completed: (*Request).finish}
	getCopy = protocol{name: "get copy-out", progress: progressGetCopy, completed: (*Request).finish, piece: nextPieces}
	getZcopy = protocol{name: "get zero-copy", progress: progressGetZcopy, completed: (*Request).finish}
}

// Put writes buf, or RequestParams.Buffer of any datatype, to the peer's memory
// at raddr, which key opens. Done means that buf may be reused; a flush makes
// sure that the data is there. An address the peer has not registered for that
// ends the operation, where the transport knows, or the connection.
func (ep *Endpoint) Put(buf []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	if key != nil && len(buf) <= key.shortPut && raddr+uint64(len(buf)) > raddr && key.ep == ep && ep.ready() &&
		(p == nil || p.plain() && p.Memory == nil) {
		way := key.putShort
		switch err := ep.lanes[way.lane].remote.PutShort(buf, raddr, way.key); err {
		case nil:
			ep.w.stats.Puts++
			ep.markDirect()
			return nil, nil
		case ucs.ErrNoResource:
		default:
			return nil, err
		}
	}
	r, err := ep.access(buf, raddr, key, p, true)
	if err != nil || r.data.length == 0 {
		return ep.accessNothing(r, err)
	}
	ep.w.stats.Puts++
	if p != nil && p.Attr&OpForceImmediate != 0 {
		return ep.putNow(r)
	}
	way := key.tables.Put(r.class()).Lookup(r.data.length)
	if way == proto.ProtoPutZcopy && !r.handles(key.putZcopy.md, int(key.putZcopy.mdIndex), p.memory(), uct.AccessLocalRead) {
		way = key.tables.Put(proto.DataGeneric).Lookup(r.data.length)
	}
	switch way {
	case proto.ProtoPutShort:
		r.way(&putShort, key.putShort)
		r.split()
	case proto.ProtoPutBcopy:
		r.way(&putCopy, key.putBcopy)
		r.split()
	case proto.ProtoPutZcopy:
		r.way(&putZcopy, key.putZcopy)
	default:
		r.proto = &putMessages
		r.split()
		ep.markMessages()
		ep.start(r, true)
		return r.result()
	}
	ep.start(r, false)
	return r.result()
}

// Get reads from the peer's memory at raddr, which key opens, into buf or
// RequestParams.Buffer. Done means that the data is there. With OpForceImmediate
// it always gives ucs.ErrNoResource, into a generic datatype, as with every
// release of C, ucs.ErrUnsupported.
func (ep *Endpoint) Get(buf []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	if p != nil && p.Attr&OpForceImmediate != 0 {
		return nil, ucs.ErrNoResource
	}
	if key != nil && len(buf) <= key.shortGet && raddr+uint64(len(buf)) > raddr && key.ep == ep && ep.ready() &&
		(p == nil || p.plain() && p.Memory == nil) {
		r, err := ep.getDirect(buf, raddr, key, p)
		if err != ucs.ErrNoResource {
			return r, err
		}
	}
	r, err := ep.access(buf, raddr, key, p, false)
	if err != nil || r.data.length == 0 {
		return ep.accessNothing(r, err)
	}
	ep.w.stats.Gets++
	way := key.tables.Get(r.class()).Lookup(r.data.length)
	if way == proto.ProtoGetZcopy && !r.handles(key.getZcopy.md, int(key.getZcopy.mdIndex), p.memory(), uct.AccessLocalWrite) {
		way = key.tables.Get(proto.DataGeneric).Lookup(r.data.length)
	}
	switch way {
	case proto.ProtoGetBcopy:
		r.way(&getCopy, key.getBcopy)
		r.split()
	case proto.ProtoGetZcopy:
		r.way(&getZcopy, key.getZcopy)
	default:
		r.proto = &getMessages
		return ep.startAnswered(r)
	}
	ep.start(r, false)
	return r.result()
}

// getDirect reads in the call if the transport does, or lends it a request for
// the time after.
func (ep *Endpoint) getDirect(buf []byte, raddr uint64, key *Rkey, p *RequestParams) (*Request, error) {
	w, way := ep.w, key.getBcopy
	r := w.spare // used only if the operation goes on after the call
	r.data.initRecv(buf, nil)
	r.arrived = 0
	err := ep.lanes[way.lane].remote.GetBcopy(r, len(buf), raddr, way.key, &r.comp)
	if err != nil && err != ucs.InProgress {
		r.data.finish()
		return nil, err
	}
	w.stats.Gets++
	ep.markDirect()
	if err == nil {
		r.data.finish()
		return nil, nil
	}
	w.spare = w.getRequest()
	r.lend(ep, key, way, &getCopy, p)
	return r, nil
}

// access checks the parameters of a put or get and makes its request.
func (ep *Endpoint) access(buf []byte, raddr uint64, key *Rkey, p *RequestParams, send bool) (*Request, error) {
	w := ep.w
	if w.ctx.params.Features&FeatureRMA == 0 || !key.opens(ep) {
		return nil, ucs.ErrInvalidParam
	}
	if err := ep.usable(); err != nil {
		return nil, err
	}
	r, err := w.useRequest(p)
	if err != nil {
		return nil, err
	}
	var buffer *Buffer
	if p != nil {
		buffer = &p.Buffer
	}
	switch {
	case send:
		err = r.data.initSend(buf, buffer)
	case buffer != nil && buffer.class == DatatypeGeneric:
		err = fmt.Errorf("ucp: get into a generic datatype: %w", ucs.ErrUnsupported)
	default:
		err = r.data.initRecv(buf, buffer)
	}
	if err == nil && p != nil && p.Memory != nil && !p.Memory.covers(w.ctx, &r.data) {
		err = fmt.Errorf("ucp: the buffer is not in the memory given with it: %w", ucs.ErrInvalidParam)
	}
	if err == nil && raddr+uint64(r.data.length) < raddr {
		err = fmt.Errorf("ucp: %d bytes at %#x: %w", r.data.length, raddr, ucs.ErrInvalidAddr)
	}
	if err != nil {
		w.dropRequest(r)
		return nil, err
	}
	r.ep, r.key = ep, key
	r.part = part{addr: raddr}
	r.offset, r.arrived, r.ranges = 0, 0, rangeset.Set{}
	return r, nil
}

// memory is the registered memory given with an operation.
func (p *RequestParams) memory() *Memory {
	if p == nil {
		return nil
	}
	return p.Memory
}

// accessNothing is the result of an operation on no bytes, or of one that was
// refused.
func (ep *Endpoint) accessNothing(r *Request, err error) (*Request, error) {
	if err != nil {
		return nil, err
	}
	r.finish(nil)
	return r.result()
}

// opens reports whether an operation of ep may use the key.
func (k *Rkey) opens(ep *Endpoint) bool { return k != nil && k.ep == ep && !k.closed }

// covers reports whether the memory holds all of an operation's buffer.
func (m *Memory) covers(ctx *Context, p *payload) bool {
	if m.ctx != ctx {
		return false
	}
	if p.class == DatatypeContig {
		return m.holds(p.buf)
	}
	for _, b := range p.list {
		if !m.holds(b) {
			return false
		}
	}
	return true
}

// ready reports whether a one-sided operation may go straight to its lane.
func (ep *Endpoint) ready() bool {
	return ep.waiting.head == nil && ep.err == nil && ep.state&(epClosing|epClosed|epDraining) == 0 && !ep.fenced()
}

// way sets the protocol and the lane of a direct operation.
func (r *Request) way(p *protocol, w *rkeyWay) {
	r.proto, r.route, r.lane = p, w, w.lane
	r.ep.markDirect()
}

// putNow writes in the call or not at all.
func (ep *Endpoint) putNow(r *Request) (*Request, error) {
	err := error(ucs.ErrNoResource)
	key, n := r.key, r.data.length
	switch short, bcopy := key.putShort, key.putBcopy; {
	case !ep.ready():
	case short != nil && r.data.class == DatatypeContig && n <= short.attr.Put.MaxShort:
		r.way(&putShort, short)
		err = r.putPiece(n)
	case bcopy != nil && n <= bcopy.attr.Put.MaxBcopy:
		r.way(&putCopy, bcopy)
		err = r.putPiece(n)
	case short == nil && bcopy == nil && ep.remoteID != 0 && n <= ep.cfg.maxBcopy-proto.PutSize:
		r.proto = &putMessages
		ep.markMessages()
		err = sendPut(r, uct.SendNow)
	}
	ep.w.dropAccess(r)
	return nil, err
}

// dropAccess gives back a request whose operation is over or was never started.
func (w *Worker) dropAccess(r *Request) {
	r.key, r.route, r.lane = nil, nil, amLane
	w.dropRequest(r)
}

// progressPutCopy writes a piece after the other, and what is too much for one
// round of progress in the next ones.
func progressPutCopy(r *Request) error {
	most := copyPiece
	if r.proto == &putShort {
		most = min(most, r.route.attr.Put.MaxShort)
	}
	for end := r.offset + copyPiece; r.offset < r.data.length; {
		if r.offset >= end {
			r.later()
			return nil
		}
		if err := r.putPiece(min(r.data.length-r.offset, most, end-r.offset)); err != nil {
			return err
		}
	}
	r.finish(nil)
	return nil
}

// putPiece writes the next n bytes in one call.
func (r *Request) putPiece(n int) error {
	ue, way := r.ep.remote(r.lane), r.route
	addr := r.part.addr + uint64(r.offset)
	if r.proto == &putShort {
		if err := ue.PutShort(r.data.buf[r.offset:r.offset+n], addr, way.key); err != nil {
			return err
		}
	} else {
		r.frag = min(n, way.attr.Put.MaxBcopy)
		packed, err := ue.PutBcopy(r, r.frag, addr, way.key)
		if err != nil {
			return err
		}
		if packed < r.frag {
			return r.packedNothing(r.offset + packed)
		}
		n = r.frag
	}
	r.offset += n
	return nil
}

// packPutData writes the piece at the request's offset.
func packPutData(r *Request, dst []byte) int {
	return r.data.packAt(dst[:min(len(dst), r.frag)], r.offset)
}

// progressPutZcopy hands the user's memory to the transport.
func progressPutZcopy(r *Request) error {
	ue, l := r.ep.remote(r.lane), &r.route.attr.Put
	for r.offset < r.data.length {
		var n int
		n, r.frag = r.data.gather(r.iovec()[:r.listLimit(l)], r.offset, min(r.data.length-r.offset, l.MaxZcopy))
		r.addHandlesOf(r.route.md, n)
		r.comp.Count++
		err := ue.PutZcopy(r.iov[:n], r.part.addr+uint64(r.offset), r.route.key, &r.comp)
		if err := r.fragmentSent(err); err != nil {
			return err
		}
	}
	r.comp.Done(nil)
	return nil
}

// listLimit is the length of scatter-gather lists for a lane.
func (r *Request) listLimit(l *uct.RMALimits) int { return min(max(l.MaxIOV, 1), len(r.iov)) }

// progressGetCopy reads a piece after the other. Pieces arrive in order. What is
// too much to be copied in one round of progress comes in the next ones.
func progressGetCopy(r *Request) error {
	ue, way := r.ep.remote(r.lane), r.route
	for copied := 0; r.offset < r.data.length; {
		if copied >= copyPiece {
			r.later()
			return nil
		}
		r.frag = min(r.data.length-r.offset, way.attr.Get.MaxBcopy, copyPiece-copied)
		r.comp.Count++
		err := ue.GetBcopy(r, r.frag, r.part.addr+uint64(r.offset), way.key, &r.comp)
		if err == nil {
			copied += r.frag
		}
		if err := r.fragmentSent(err); err != nil {
			return err
		}
	}
	r.comp.Done(nil)
	return nil
}

// Unpack implements uct.Unpacker.
func (r *Request) Unpack(src []byte) {
	src = src[:min(len(src), r.data.length-r.arrived)]
	r.data.unpackAt(src, r.arrived) // does not fail: not a generic datatype
	r.arrived += len(src)
}

// progressGetZcopy lets the transport read straight into the user's memory.
func progressGetZcopy(r *Request) error {
	ue, l := r.ep.remote(r.lane), &r.route.attr.Get
	for r.offset < r.data.length {
		var n int
		n, r.frag = r.data.gather(r.iovec()[:r.listLimit(l)], r.offset, min(r.data.length-r.offset, l.MaxZcopy))
		r.addHandlesOf(r.route.md, n)
		r.comp.Count++
		err := ue.GetZcopy(r.iov[:n], r.part.addr+uint64(r.offset), r.route.key, &r.comp)
		if err := r.fragmentSent(err); err != nil {
			return err
		}
	}
	r.comp.Done(nil)
	return nil
}

// leaveAccess lets go of what a one-sided operation refers to.
func (r *Request) leaveAccess() {
	if r.state&stateSplit != 0 {
		r.state &^= stateSplit
		r.ep.rma.copies.leave(r)
	}
	r.key, r.route, r.lane = nil, nil, amLane
	if r.state&stateServes != 0 {
		r.state &^= stateServes
		r.w.serving--
	}
	if r.region != nil {
		r.region.Release()
		r.region = nil
	}
}

var _ uct.Unpacker = (*Request)(nil)
