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

// One-sided operations by messages, at the side whose memory it is. A message
// carries an address and no key, so everything is checked against the context's
// table of registered memory before a byte moves. No answer can say "refused":
// an error drops the connection, and that ends the operation at the peer. C does
// not check.

var (
	errServing = &proto.FormatError{What: "get request", Reason: "too many are unanswered", Status: ucs.ErrExceedsLimit}
	errForeign = &proto.FormatError{What: "remote access", Reason: "the endpoint is of another peer", Status: ucs.ErrRejected}
	errGone    = &proto.FormatError{What: "remote access", Reason: "the endpoint is closed", Status: ucs.ErrConnectionReset}
)

// maxServing bounds the answers with data that wait for the transport, for each
// source. Asking costs a peer little. Most stop being read before (answers.go).
const maxServing = 1 << 16

// mayNotAsk reports whether too much is unanswered.
func (s *source) mayNotAsk() bool { return s.owed >= maxServing*requestSize }

// target returns the endpoint that a message names, and the memory it is about,
// acquired; the memory of no bytes is nil. A message for a closed endpoint is
// refused too: its sender would wait for the answer for ever.
func (w *Worker) target(src *uct.Source, id proto.EndpointID, addr uint64, n int, want uct.Access) (*Endpoint, *regions.Region, []byte, error) {
	ep := w.endpoints.Get(uint64(id))
	if ep == nil || ep.err != nil {
		w.stats.Dropped++
		return nil, nil, nil, errGone
	}
	if w.foreign(src, ep) {
		return nil, nil, nil, errForeign
	}
	if n == 0 {
		return ep, nil, nil, nil
	}
	r, b := w.ctx.table.Find(addr, n, want, ep.identity())
	if r == nil {
		if src == nil {
			ep.reject()
		}
		return nil, nil, nil, w.denied(addr, n, want)
	}
	return ep, r, b, nil
}

// reject tells the peer that its endpoint is of no use, where there is no
// connection to drop: transports whose peers share a queue.
func (ep *Endpoint) reject() {
	if ep.remoteID == 0 || ep.state&epRejected != 0 {
		return
	}
	ep.state |= epRejected
	ep.sendWireup(proto.WireupEpRemoved, ep.remoteID, ep.w.emptyAddress())
}

// denied is the error for an access to memory that is not registered for it.
//
//go:noinline
func (w *Worker) denied(addr uint64, n int, want uct.Access) error {
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

// onPut writes to memory of ours.
func (w *Worker) onPut(source *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, payload, err := proto.ParsePut(data)
	if err != nil {
		return w.malformed(err)
	}
	ep, mem, dst, err := w.target(source, h.EpID, h.Address, len(payload), uct.AccessRemotePut)
	if err != nil {
		return err
	}
	if mem != nil {
		cpu.Copy(dst, payload)
		mem.Release()
	}
	w.stats.Served++
	ep.oweCompletion()
	return nil
}

// onGetReq answers with memory of ours.
func (w *Worker) onGetReq(source *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseGetReq(data)
	if err != nil {
		return w.malformed(err)
	}
	from := w.sourceOf(source)
	if from.mayNotAsk() {
		return w.malformed(errServing)
	}
	ep, mem, src, err := w.target(source, h.EpID, h.Address, h.Length, uct.AccessRemoteGet)
	if err != nil {
		return err
	}
	w.stats.Served++
	r := ep.control(getReply{})
	r.peerID, r.offset = uint64(h.ReqID), 0
	r.data.initSend(src, nil)
	w.serve(from, ep, r, mem)
	return nil
}

// serve starts an answer that keeps memory in place until it has left, and that from
// is charged with until then.
func (w *Worker) serve(from *source, ep *Endpoint, r *Request, mem *regions.Region) {
	r.region = mem
	r.state |= stateServes
	r.userData = from
	w.rma.serving++
	from.addOwed(requestSize)
	ep.reply(r)
	from.checkOwed(ep)
}

// answer is what answers to one-sided operations of peers have in common.
type answer struct{ basics }

// release ends the count of answers under way.
func (answer) release(r *Request) {
	if r.state&stateServes != 0 {
		r.state &^= stateServes
		r.w.rma.serving--
		r.userData.(*source).repay(requestSize)
	}
}

// getReply answers a request for memory of ours: by messages of copies, or of
// the memory itself, which the request keeps in place.
type getReply struct{ answer }

func (getReply) about() protocolInfo {
	return protocolInfo{name: "get reply", kind: kindAnswer, needs: needID}
}

// Whether the message being sent has its data copied behind the header is the step.
const (
	stepCopied = iota
	stepGathered
)

// progress sends the pieces, in order, at least one.
func (getReply) progress(r *Request) error {
	c := r.ep.cfg
	room := c.maxBcopy - proto.GetRepSize
	for first := true; first || r.offset < r.data.length; first = false {
		r.comp.Count++
		var err error
		if left := r.data.length - r.offset; left > room && c.maxZcopy > c.maxBcopy && r.laneHandles(r.ep.amLane(), uct.AccessLocalRead) {
			var n int
			n, r.frag = r.data.gather(r.iovec(), r.offset, c.maxZcopy-proto.GetRepSize)
			r.addHandles(n, r.ep.amLane())
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

// pack writes a header, and the data if that is copied.
func (getReply) pack(r *Request, dst []byte) int {
	n := proto.GetRep{ReqID: proto.RequestID(r.peerID), Offset: r.offset}.Put(dst)
	if r.step == stepCopied {
		n += r.data.packAt(dst[n:n+r.frag], r.offset)
	}
	return n
}
