package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// Messages that have arrived without a receive can be looked at, or taken out and
// received later. A message that was taken belongs to the user, who receives or
// discards it; Worker.Close gives up those that are left.

// TagPeek looks for the message that a receive of tag and mask would get, and describes it.
// It does not progress the worker. The length is that of the whole message, even if parts
// are still to come. Until they have arrived it is the peer's claim, and may be up to 128
// TiB: check it before you allocate memory.
func (w *Worker) TagPeek(tag, mask Tag) (TagRecvInfo, bool) {
	w.enter()
	var info TagRecvInfo
	d := w.probe(tag, mask)
	if d != nil {
		info = d.Info()
	}
	w.exit()
	return info, d != nil
}

// TagTake takes out the message that a receive of tag and mask would get, without progress:
// no receive will match it any more. It must be received or discarded. Its memory is the
// application's until then, and no longer counts for UCX_MAX_UNEXP_BYTES once the message
// is complete.
func (w *Worker) TagTake(tag, mask Tag) (*TagMessage, bool) {
	w.enter()
	d := w.probe(tag, mask)
	if d != nil {
		w.tag.removeUnexpected(d)
		w.tag.taken.push(d, arrivalLinks)
		d.removed, d.seen = true, true
		d.own()
	}
	w.exit()
	return d, d != nil
}

// probe finds the message that a receive would get.
func (w *Worker) probe(tag, mask Tag) *TagMessage {
	if !w.tag.on {
		return nil
	}
	return w.tag.findUnexpected(tag, mask)
}

// Recv receives the message, as Worker.TagRecv does. The message must not be used
// afterwards, unless the parameters were refused or OpForceImmediate gave
// ucs.ErrNoResource: then it is still the caller's.
func (d *TagMessage) Recv(buf []byte, p *RequestParams) (*Request, error) {
	if d.missing() {
		return nil, errMissing("TagMessage.Recv", d == nil)
	}
	w := d.w
	w.enter()
	r, err := d.recv(buf, p)
	w.exit()
	return r, err
}

func startRecv(c *call) (*Request, error) { return c.msg.recv(c.buf, c.p) }

func (d *TagMessage) recv(buf []byte, p *RequestParams) (*Request, error) {
	if !d.removed {
		return nil, errNoMessage
	}
	w := d.w
	r, err := w.useRecv(buf, p)
	if err != nil {
		return nil, err
	}
	if p != nil && p.Flags&OpForceImmediate != 0 && d.kind != messageEager {
		w.dropRequest(r)
		return nil, ucs.ErrNoResource
	}
	r.tag, r.mask = d.tag, FullMask
	w.stats.TagRecvs++
	w.release(d)
	w.receive(r, d)
	return r.recvResult(p)
}

var errNoMessage = fmt.Errorf("ucp: the message was received or discarded before: %w", ucs.ErrInvalidParam)

// Discard drops the message. Its sender sees success. The message must not be used
// afterwards; a second Discard does nothing.
func (d *TagMessage) Discard() {
	if d.missing() {
		return
	}
	w := d.w
	w.enter()
	if d.removed {
		w.discardTaken(d)
	}
	w.exit()
}

// discardTaken gives up a message that was in the hands of the user.
func (w *Worker) discardTaken(d *TagMessage) {
	w.release(d)
	sync, from, epID, reqID := d.sync, d.from, d.epID, d.reqID
	switch d.kind {
	case messageMulti:
		a := d.assembly
		w.putMessage(d)
		a.dropPieces()
		a.owner, a.discard = nil, true // the rest is only counted
		a.check(w)
	case messageRndv:
		was := w.asker
		w.asker = from
		w.forgoOffer(&d.rndv)
		w.asker = was
		w.putMessage(d)
	default:
		w.putMessage(d)
	}
	if sync {
		w.sendSyncAck(from, epID, reqID)
	}
}

// forgoOffer lets the sender of a message go on that nobody will fetch.
func (w *Worker) forgoOffer(h *proto.RndvRTS) {
	if ep := w.endpoints.Get(uint64(h.EpID)); ep != nil && ep.err == nil {
		ep.sendATS(h.ReqID, h.Size, ucs.OK)
	}
}
