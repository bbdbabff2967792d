package ucp

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/regions"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// One-sided operations by messages, at the side whose memory it is. A message
// carries an address and no key, so everything is checked against the context's
// table of registered memory before a byte moves. No answer can say "refused":
// an error drops the connection, and that ends the operation at the peer. C does
// not check.

var (
	errCompletion  = &proto.FormatError{What: "completion", Reason: "nothing is outstanding", Status: ucs.ErrIO}
	errGetReply    = &proto.FormatError{What: "get reply", Reason: "not what was asked for", Status: ucs.ErrIO}
	errAtomicReply = &proto.FormatError{What: "atomic reply", Reason: "of another size than asked for", Status: ucs.ErrIO}
	errServing     = &proto.FormatError{What: "get request", Reason: "too many are unanswered", Status: ucs.ErrExceedsLimit}
	errGone        = &proto.FormatError{What: "remote access", Reason: "the endpoint is closed", Status: ucs.ErrConnectionReset}
)

// maxServing bounds the answers with data that wait for the transport, per
// worker. Asking costs a peer little.
const maxServing = 1 << 16

// target returns the endpoint that a message names, and the memory it is about,
// acquired; the memory of no bytes is nil. A message for a closed endpoint is
// refused too: its sender would wait for the answer for ever.
func (w *Worker) target(src *uct.Source, id proto.EndpointID, addr uint64, n int, want uct.Access) (*Endpoint, *regions.Region, []byte, error) {
	ep := w.endpoints.Get(uint64(id))
	if ep == nil || ep.err != nil {
		w.stats.Dropped++
		return nil, nil, nil, errGone
	}
	if n == 0 {
		return ep, nil, nil, nil
	}
	r, b := w.ctx.table.Find(addr, n, want)
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
	err := fmt.Errorf("ucp: %s of %d bytes at %#x by a peer: not registered for that: %w", what, n, addr, ucs.ErrInvalidAddr)
	log.Debug("remote access denied", zap.String("worker", w.name), zap.Error(err))
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
		copyBytes(dst, payload)
		mem.Release()
	}
	w.stats.Served++
	ep.oweCompletion()
	return nil
}

// getReply answers a request for memory of ours: by messages of copies, or of
// the memory itself, which the request keeps in place.
var getReply protocol

func init() {
	getReply = protocol{name: "get reply", progress: progressGetReply, completed: (*Request).finish, pack: packGetReply}
}

// onGetReq answers with memory of ours.
func (w *Worker) onGetReq(source *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseGetReq(data)
	if err != nil {
		return w.malformed(err)
	}
	if w.serving >= maxServing {
		return w.malformed(errServing)
	}
	ep, mem, src, err := w.target(source, h.EpID, h.Address, h.Length, uct.AccessRemoteGet)
	if err != nil {
		return err
	}
	w.stats.Served++
	r := ep.control(&getReply)
	r.peerID, r.offset = uint64(h.ReqID), 0
	r.data.initSend(src, nil)
	w.serve(ep, r, mem)
	return nil
}

// serve starts an answer that keeps memory in place until it has left.
func (w *Worker) serve(ep *Endpoint, r *Request, mem *regions.Region) {
	r.region = mem
	r.state |= stateServes
	w.serving++
	ep.start(r, true)
}

// progressGetReply sends the pieces, in order, at least one.
func progressGetReply(r *Request) error {
	c := r.ep.cfg
	room := c.maxBcopy - proto.GetRepSize
	for first := true; first || r.offset < r.data.length; first = false {
		r.comp.Count++
		var err error
		if left := r.data.length - r.offset; left > room && c.maxZcopy > c.maxBcopy && r.laneHandles(amLane, nil, uct.AccessLocalRead) {
			var n int
			n, r.frag = r.data.gather(r.iovec(), r.offset, c.maxZcopy-proto.GetRepSize)
			r.addHandles(n, amLane)
			r.part.n = 0 // the data is not packed
			err = r.ep.ue.AMZcopy(uct.AMID(proto.IDGetRep), r, r.iov[:n], 0, &r.comp)
		} else {
			r.frag = min(left, room)
			r.part.n = r.frag
			_, err = r.ep.ue.AMBcopy(uct.AMID(proto.IDGetRep), r, 0, nil)
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

// packGetReply writes a header, and part.n bytes of data.
func packGetReply(r *Request, dst []byte) int {
	n := proto.GetRep{ReqID: proto.RequestID(r.peerID), Offset: r.offset}.Put(dst)
	return n + r.data.packAt(dst[n:n+r.part.n], r.offset)
}

// addRMAHandlers adds the handlers of one-sided operations, as far as they are
// wanted.
func (w *Worker) addRMAHandlers(handlers map[proto.AMID]uct.AMHandler) {
	features := w.ctx.params.Features
	if features&FeatureRMA != 0 {
		handlers[proto.IDPut] = w.onPut
		handlers[proto.IDGetReq] = w.onGetReq
		handlers[proto.IDGetRep] = w.onGetRep
	}
	if features&(FeatureAMO32|FeatureAMO64) != 0 {
		handlers[proto.IDAtomicReq] = w.onAtomicReq
		handlers[proto.IDAtomicRep] = w.onAtomicRep
	}
	if features&(FeatureRMA|FeatureAMO32|FeatureAMO64) != 0 {
		handlers[proto.IDCmpl] = w.onCompletion
	}
}
