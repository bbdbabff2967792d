package ucp

import (
	"github.com/ucx-go/ucx/ucs"
)

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
	d.detached, d.assembly = true, a
	a.ranges.Each(func(off, n int) bool {
		b := w.buffers.Get(n)
		b = b[:n]
		r.data.packAt(b, off)
		a.pieces = append(a.pieces, piece{off: off, buf: b, from: from})
		from.take(cap(b))
		return true
	})
	a.req, a.owner = nil, d
	return true
}

// arrive matches a detached message that is whole.
func (d *TagMessage) arrive() {
	w := d.w
	d.detached = false
	if r := w.tag.matchExpected(d.tag); r != nil {
		w.receive(r, d)
		return
	}
	w.stats.Unexpected++
	w.tag.addUnexpected(d)
}

// putDetached takes back the object of a detached message that was given up.
func (w *Worker) putDetached(d *TagMessage) {
	d.detached = false
	w.putMessage(d)
}

// dropDetached gives up a detached message at the end of the worker. The assembly was
// forgotten.
func (a *assembly) dropDetached() {
	if d, ok := a.owner.(*TagMessage); ok && d.detached {
		a.owner = nil
		d.w.putDetached(d)
	}
}
