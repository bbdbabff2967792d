package ucp

import "github.com/ucx-go/ucx/ucs"

// The cancellation of a receive that a message in fragments has matched, while some of the
// fragments are missing. The message is detached from the receive: what has arrived is
// copied out of the receive's buffer into memory of the worker, charged to the connection
// that brought it, and the receive ends with ucs.ErrCanceled. The rest is added as it
// arrives. When the message is whole it is matched again, as if it had arrived at that
// moment: it goes to the oldest posted receive that takes its tag, or to the end of the
// unexpected queue.
//
//	posted ──► matched ──► done
//	   │          │  Cancel
//	   │          └──► detached ──► whole ──► matched, or unexpected
//	   └──► canceled         └──► lost with its connection
//
// The fragments that a sender sends over one lane come in order, so no later message of
// that lane is here before the message is whole: the order of the sender's messages is kept.
// Until then no receive can match it, so that one that will never be whole, because its
// sender has died, does not keep a receive from later messages of the same tag.
//
// A detached message is not acknowledged a second time to a sender that waits for the
// match.

// Cancel requests the end of an operation. The operation either completes or ends with
// ucs.ErrCanceled, and its callback runs. No message is lost: either this receive gets it,
// or a later one.
//
// A tagged receive that no message has matched is canceled in the call, as in C UCX. So is
// a receive that has matched a message of several packets of which some are still to come:
// the data that has arrived is moved out of its buffer, and when the message is complete it
// goes to another receive, as if it had arrived then. The sender does not notice.
//
// A receive goes on, and ends with the message or with the endpoint, in these cases: its
// message is fetched from the sender (rendezvous), so that the peer or a device may be
// writing to the buffer; its datatype is generic; or the worker may keep no memory for its
// message (UCX_MAX_UNEXP_BYTES). A stream receive can always be canceled: the bytes
// received by then are in the buffer, Request.RecvLength gives their number, and the rest
// goes to the next receive. All other requests go on; they end at the latest with their
// endpoint.
func (w *Worker) Cancel(r *Request) {
	if r != nil {
		r.checkLive()
	}
	w.enter()
	w.cancel(r)
	w.exit()
}

func (w *Worker) cancel(r *Request) {
	if r != nil && r.w == w && r.state&(stateDone|stateNext) == stateNext {
		r.finish(ucs.ErrCanceled)
		return
	}
	if r == nil || r.w != w || r.state&(stateDone|stateRecv) != stateRecv {
		return
	}
	switch {
	case r.state&stateLeft != 0:
		r.state |= stateUnwanted
	case r.state&(stateExpect|stateStream) == 0:
		w.cancelMatched(r)
	default:
		w.cancelPosted(r)
	}
}

// cancelMatched ends the receive of a message in fragments of which some are missing, by
// detaching the message. A receive of another message is left alone: data may be written
// to its buffer by the peer, or by a device.
func (w *Worker) cancelMatched(r *Request) {
	a := w.eager.assemblies[taggedKey(r.msgID)]
	switch {
	case a == nil || a.req != r:
	case w.detach(a):
		r.finish(ucs.ErrCanceled)
	case a.list == &w.unnamed.fragments && !w.hasSenders(): // nothing will come any more
		w.orphan(&w.unnamed.fragments)
	}
}

// detach takes the message away from its receive, and reports whether it did. It does
// not where what has arrived cannot be read back, as from a generic datatype, or where
// there is no room for it: no other message has to give way.
func (w *Worker) detach(a *assembly) bool {
	r, from := a.req, a.payer
	if r.data.class == DatatypeGeneric || !from.pays().reserve(messageSize+a.got, w.maxHeld) {
		return false
	}
	d := w.newMessage(from, r.info.SenderTag, messageMulti, a.total)
	d.assembly = a
	w.tag.detached.push(d, arrivalLinks)
	a.ranges.Each(func(off, n int) bool {
		b := w.buffers.Get(n)
		b = b[:n]
		r.data.packAt(b, off)
		a.pieces = append(a.pieces, piece{off: off, buf: b, from: from})
		from.take(cap(b))
		return true
	})
	a.req, a.owner = nil, (*detachedMessage)(d)
	return true
}

// detachedMessage is a message that was detached from its receive, and is not whole.
type detachedMessage TagMessage

var _ assemblyOwner = (*detachedMessage)(nil)

// message makes it a message like others, in no list.
func (d *detachedMessage) message() *TagMessage {
	d.w.tag.detached.remove((*TagMessage)(d), arrivalLinks)
	return (*TagMessage)(d)
}

// whole implements assemblyOwner: the message is matched.
func (d *detachedMessage) whole() {
	w, m := d.w, d.message()
	m.assembly.owner = m
	if r := w.tag.matchExpected(m.tag); r != nil {
		w.receive(r, m)
		return
	}
	w.stats.Unexpected++
	w.tag.addUnexpected(m)
}

// lose implements assemblyOwner.
func (d *detachedMessage) lose(error) {
	w, m := d.w, d.message()
	w.discard(m.assembly)
	w.putMessage(m)
}
