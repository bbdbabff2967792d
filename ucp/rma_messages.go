package ucp

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/regions"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// One-sided operations by messages, at the initiator:
//
//	put   PUT, PUT, … ──►  ◄── CMPL, CMPL, …           done when the last has been packed
//	get   GET_REQ ──►      ◄── GET_REP, GET_REP, …     done when all bytes have arrived

// putMessages writes with PUT messages.
type putMessages struct{ basics }

func (putMessages) about() protocolInfo {
	return protocolInfo{name: "put by messages", kind: kindMessages, needs: needID | needFence}
}

// progress sends what the transport takes, up to the bytes of one round of progress.
func (putMessages) progress(r *Request) error {
	return r.w.rma.inPieces(r, func(int) error { return sendPut(r, 0) })
}

// release ends the counting of an operation in pieces.
func (putMessages) release(r *Request) { r.unsplit() }

// sendPut sends the piece at the request's offset. The message is a copy, so the piece counts as
// sent once the transport has buffered it.
func sendPut(r *Request, flags uct.SendFlags) error {
	f := r.ep.flow()
	f.posted++ // before the call: the answer may arrive during the call
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDPut), r.hooks(), flags, nil)
	if err != nil && err != ucs.InProgress {
		f.posted--
		return err
	}
	if r.frag <= 0 {
		return r.packedNothing(r.offset)
	}
	r.offset += r.frag
	return nil
}

// pack writes a PUT message with as much data as fits.
func (putMessages) pack(r *Request, dst []byte) int {
	a := r.access
	n := proto.Put{
		Address: a.addr + uint64(r.offset),
		EpID:    r.ep.remoteID,
		MemType: uint32(a.key.key.MemType),
	}.Put(dst)
	return n + r.packFragment(dst, n, r.data.Length-r.offset, r.offset)
}

// assignID gives an operation an id that the peer's answer with data will name.
func (rm *rmaState) assignID(r *Request) error {
	if r.localID = r.w.pool.requestIDs.Put(r); r.localID == 0 {
		return ucs.ErrNoMemory
	}
	r.ep.w.rma.markMessages(r.ep)
	return nil
}

// ask sends a message that is answered with data. The request then waits for the answer in the
// endpoint's list outstanding. The data may arrive during the call, so the request is not touched
// after it.
func (rm *rmaState) ask(r *Request, id proto.AMID) error {
	f := r.ep.flow()
	if !r.node.Linked() {
		r.await()
		if id == proto.IDGetReq {
			f.reading++
		}
	}
	f.asked++
	_, err := r.ep.ue.AMBcopy(uct.AMID(id), r.hooks(), 0, nil)
	if err != nil && err != ucs.InProgress {
		f.asked--
		return err
	}
	return nil
}

// answered ends an operation whose answer has arrived completely.
func (rm *rmaState) answered(r *Request) {
	f := r.ep.flow()
	f.answered++
	r.finish(nil)
	f.advance()
}

// forget counts the answer of an operation that is about to be canceled, as if it had arrived: it will
// be dropped, and a flush must not wait for it.
func (rm *rmaState) forget(r *Request) {
	f := r.ep.rma
	switch {
	case r.is(kindGet):
		f.reading--
		f.answered++
	case r.is(kindFetch):
		f.answered++
	}
}

// getMessages reads with a GET_REQ message.
type getMessages struct{ basics }

func (getMessages) about() protocolInfo {
	return protocolInfo{name: "get by messages", kind: kindGet, needs: needID | needFence}
}

func (getMessages) progress(r *Request) error { return r.w.rma.ask(r, proto.IDGetReq) }

func (getMessages) pack(r *Request, dst []byte) int {
	return proto.GetReq{
		Address: r.access.addr,
		Length:  r.data.Length,
		EpID:    r.ep.remoteID,
		ReqID:   proto.RequestID(r.localID),
		MemType: uint32(r.access.key.key.MemType),
	}.Put(dst)
}

// onGetRep receives a GET_REP: data of a get.
func (rm *rmaState) onGetRep(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := rm.w
	h, payload, err := proto.ParseGetRep(data)
	if err != nil {
		return w.logMalformed(err)
	}
	r := w.pool.requestIDs.Get(uint64(h.ReqID))
	if !r.is(kindGet) {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, r.ep) {
		return nil
	}
	a := r.access
	if h.Offset+len(payload) > r.data.Length || !a.ranges.Add(h.Offset, len(payload)) {
		return w.logMalformed(errGetReply)
	}
	unpackData(r, payload, h.Offset) // cannot fail: the datatype is not generic
	if a.arrived += len(payload); a.arrived == r.data.Length {
		r.ep.flow().reading--
		rm.answered(r)
	}
	return nil
}

var errGetReply = &proto.FormatError{What: "get reply", Reason: "does not match the request", Status: ucs.ErrIO}

// One-sided operations by messages, at the target. A message carries an address and no key, so
// every access is checked against the context's table of registered memory before a byte is copied.
// No answer can express a refusal: an error drops the connection, and that ends the operation at
// the peer. C UCX does not check.

var (
	errServing = &proto.FormatError{What: "get request", Reason: "too many requests of the peer wait for their reply", Status: ucs.ErrExceedsLimit}
	errSpoofed = &proto.FormatError{What: "remote access", Reason: "the endpoint belongs to another peer", Status: ucs.ErrRejected}
	errGone    = &proto.FormatError{What: "remote access", Reason: "the endpoint is closed", Status: ucs.ErrConnectionReset}
)

// maxServing bounds the answers with data that wait for the transport, for each source: a peer can
// send requests at little cost. Reading from most sources stops before that (reply_queue.go).
const maxServing = 1 << 16

// tooManyRequests reports whether too many requests of the source are unanswered.
func (s *source) tooManyRequests() bool { return s.ReplyBytes() >= maxServing*requestSize }

// messageTarget returns the endpoint that a message names, and the n bytes at addr with their
// region, which the caller must release. The region is nil for no bytes. A message for a closed
// endpoint is refused too: otherwise its sender would wait for the answer forever.
func (rm *rmaState) messageTarget(src *uct.Source, id proto.EndpointID, addr uint64, n int, want uct.Access) (*Endpoint, *regions.Region, []byte, error) {
	w := rm.w
	ep := w.endpoints.Get(uint64(id))
	if ep == nil || ep.err != nil {
		w.stats.Dropped++
		return nil, nil, nil, errGone
	}
	if w.admission.spoofed(src, ep) {
		return nil, nil, nil, errSpoofed
	}
	if n == 0 {
		return ep, nil, nil, nil
	}
	r, b := w.ctx.table.Find(addr, n, want, ep.w.rights.identity(ep))
	if r == nil {
		if src == nil {
			rm.reject(ep)
		}
		return nil, nil, nil, rm.denied(addr, n, want)
	}
	return ep, r, b, nil
}

// reject tells the peer that its endpoint is removed. It is for transports whose peers share a
// queue, so that there is no connection to drop.
func (rm *rmaState) reject(ep *Endpoint) {
	if ep.remoteID == 0 || ep.state&epRejected != 0 {
		return
	}
	ep.state |= epRejected
	ep.w.wireups.sendWireup(ep, proto.WireupEpRemoved, ep.remoteID, ep.w.own.emptyAddress())
}

// denied returns the error for an access to memory that is not registered for it, and counts it.
//
//go:noinline
func (rm *rmaState) denied(addr uint64, n int, want uct.Access) error {
	w := rm.w
	w.stats.Denied++
	what := "atomic operation"
	switch want {
	case uct.AccessRemotePut:
		what = "put"
	case uct.AccessRemoteGet:
		what = "get"
	}
	err := fmt.Errorf("ucp: %s of %d bytes at %#x by a peer: the memory is not registered for it: %w", what, n, addr, ucs.ErrInvalidAddr)
	w.ctx.log.Debug("remote access denied", zap.String("worker", w.name), zap.Error(err))
	return err
}

// onPut receives a PUT: it writes to memory of this process.
func (rm *rmaState) onPut(source *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := rm.w
	h, payload, err := proto.ParsePut(data)
	if err != nil {
		return w.logMalformed(err)
	}
	ep, mem, dst, err := rm.messageTarget(source, h.EpID, h.Address, len(payload), uct.AccessRemotePut)
	if err != nil {
		return err
	}
	if mem != nil {
		cpu.Copy(dst, payload)
		mem.Release()
	}
	w.stats.Served++
	ep.addCompletionOwed()
	return nil
}

// onGetReq receives a GET_REQ: it answers with memory of this process.
func (rm *rmaState) onGetReq(source *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := rm.w
	h, err := proto.ParseGetReq(data)
	if err != nil {
		return w.logMalformed(err)
	}
	from := w.accounts.sourceOf(source)
	if from.tooManyRequests() {
		return w.logMalformed(errServing)
	}
	ep, mem, src, err := rm.messageTarget(source, h.EpID, h.Address, h.Length, uct.AccessRemoteGet)
	if err != nil {
		return err
	}
	w.stats.Served++
	r := ep.control(getReply{})
	r.peerID, r.offset = uint64(h.ReqID), 0
	r.data.SetBytes(src)
	rm.serve(from, ep, r, mem)
	return nil
}

// serve starts an answer r. Until the answer has been sent it holds the region mem, which may be
// nil, and from is charged with it.
func (rm *rmaState) serve(from *source, ep *Endpoint, r *Request, mem *regions.Region) {
	r.region = mem
	r.state |= stateServes
	r.userData = from
	rm.serving++
	from.AddReplies(requestSize)
	ep.reply(r)
	from.checkReplyBytes(ep)
}

// answer is embedded in the protocols of answers to one-sided operations of peers.
type answer struct{ basics }

// release ends the counting and charging of an answer.
func (answer) release(r *Request) {
	if r.state&stateServes != 0 {
		r.state &^= stateServes
		r.w.rma.serving--
		r.userData.(*source).SubReplies(requestSize)
	}
}

// getReply answers a GET_REQ with messages of copied data, or with zero-copy messages from the
// memory itself, whose region the request holds.
type getReply struct{ answer }

func (getReply) about() protocolInfo {
	return protocolInfo{name: "get reply", kind: kindAnswer, needs: needID}
}

// The step of a getReply: whether the data of the message being sent is copied behind the header,
// or gathered by the transport.
const (
	stepCopied = iota
	stepGathered
)

// progress sends the pieces in order. It sends at least one, even for no bytes.
func (getReply) progress(r *Request) error {
	c := r.ep.cfg
	room := c.maxBcopy - proto.GetRepSize
	for first := true; first || r.offset < r.data.Length; first = false {
		r.comp.Count++
		var err error
		if left := r.data.Length - r.offset; left > room && c.maxZcopy > c.maxBcopy && r.w.rights.laneHandles(r, r.ep.amLane(), uct.AccessLocalRead) {
			var n int
			n, r.frag = r.data.Gather(r.w.rights.iovec(r), r.offset, c.maxZcopy-proto.GetRepSize)
			r.w.rights.addHandles(r, n, r.ep.amLane())
			r.step = stepGathered
			err = r.ep.ue.AMZcopy(uct.AMID(proto.IDGetRep), r.hooks(), r.iov[:n], 0, &r.comp)
		} else {
			r.frag = min(left, room)
			r.step = stepCopied
			_, err = r.ep.ue.AMBcopy(uct.AMID(proto.IDGetRep), r.hooks(), 0, nil)
			if err == ucs.InProgress {
				err = nil
			}
		}
		if err := r.fragmentSent(err); err != nil {
			return err
		}
	}
	r.comp.Done(nil)
	return nil
}

// pack writes a header, and the data behind it if that is copied.
func (getReply) pack(r *Request, dst []byte) int {
	n := proto.GetRep{ReqID: proto.RequestID(r.peerID), Offset: r.offset}.Put(dst)
	if r.step == stepCopied {
		n += packData(r, dst[n:n+r.frag], r.offset)
	}
	return n
}
