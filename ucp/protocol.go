package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// protocol is one way to carry out an operation. It is a value without state: what
// it keeps between its steps is in the request. Its functions are re-entered at the
// stage stored there and never block. Embed basics for what it has nothing special
// to do about.
type protocol interface {
	about() protocolInfo

	// progress sends what can be sent. nil: nothing more to send now, the
	// request is finished or waits for a completion or a message;
	// ucs.ErrNoResource: queue it; any other error aborts the request.
	progress(r *Request) error

	// completed is told that the transport is done with everything sent.
	completed(r *Request, err error)

	// pack writes the message or header being sent; unpack takes bytes that the
	// transport has read.
	pack(r *Request, dst []byte) int
	unpack(r *Request, src []byte)

	// abort ends the request before its time: it cannot go on, or its endpoint has
	// failed. Parts of it may still be with the transport.
	abort(r *Request, err error)

	// release gives back what the protocol took, at the end of the operation,
	// whose result is in r.err. What every request may hold goes by itself.
	release(r *Request)
}

// protocolInfo describes a protocol.
type protocolInfo struct {
	name  string
	kind  protocolKind
	needs needs // what it cannot start without
}

// protocolKind says what part of a conversation a protocol plays: which messages of
// the peer are for a request that it carries out.
type protocolKind uint8

const (
	kindControl  protocolKind = iota // a message of the library's
	kindEager                        // a message that goes at once
	kindOffer                        // a rendezvous, sending side: the peer may ask for data
	kindWrite                        // the same, while data is on its way
	kindAsk                          // a rendezvous, receiving side: waits for data
	kindRead                         // the same, reading the data itself
	kindAccess                       // a one-sided operation that goes straight to the peer's memory
	kindMessages                     // one by messages that are answered by number only
	kindGet                          // one that is answered with data
	kindFetch                        // an atomic one that is answered with a word
	kindAnswer                       // the answer to one of the peer's
	kindFlush
	kindClose // a flush after which the endpoint is released
)

// basics is what most protocols do alike.
type basics struct{}

func (basics) completed(r *Request, err error) { r.finish(err) }
func (basics) pack(*Request, []byte) int       { return 0 }
func (basics) unpack(*Request, []byte)         {}
func (basics) release(*Request)                {}

// abort ends the request; if parts of it are with the transport, their completion
// does.
func (basics) abort(r *Request, err error) {
	if r.comp.Count > 1 {
		r.comp.Done(err)
		return
	}
	r.finish(err)
}

// hooks are a request as the transports see it: who waits for a place to send, who
// is told of a completion, who packs a message. It is a type of its own so that
// users do not see the methods.
type hooks Request

var (
	_ uct.PendingOwner    = (*hooks)(nil)
	_ uct.CompletionOwner = (*hooks)(nil)
	_ uct.Packer          = (*hooks)(nil)
	_ uct.Unpacker        = (*hooks)(nil)
)

// hooks returns the request as transports take it.
func (r *Request) hooks() *hooks { return (*hooks)(r) }

// Completed implements uct.CompletionOwner. What was canceled because the endpoint has failed
// ends with the cause.
func (h *hooks) Completed(c *uct.Completion) {
	r, err := (*Request)(h), c.Err
	if err != nil {
		err = r.w.ends.laneError(r, err)
	}
	r.proto.completed(r, err)
}

// Pack implements uct.Packer.
func (h *hooks) Pack(dst []byte) int { return h.proto.pack((*Request)(h), dst) }

// Unpack implements uct.Unpacker.
func (h *hooks) Unpack(src []byte) { h.proto.unpack((*Request)(h), src) }

// Dispatch implements uct.PendingOwner. While it runs the request is still at
// the head of the lane's queue and the queue lets sends through, so what the
// request's end brings about, a callback that sends or the object's next use,
// is put off to the end of the progress round.
func (h *hooks) Dispatch(*uct.Pending) error {
	r := (*Request)(h)
	w := r.w
	if ep := r.ep; ep != nil && ep.charge != nil && ep.charge.answers.before(r) {
		d := ep.charge.answers.drain
		if err := d.proto.progress(d); err == ucs.ErrNoResource {
			return err
		}
	}
	w.dispatching = r
	lane := r.lane
	var err error
	if r.state&stateGivenUp == 0 {
		err = r.proto.progress(r)
	} else {
		r.abort(ucs.ErrCanceled)
	}
	switch {
	case err == nil:
	case err != ucs.ErrNoResource:
		r.proto.abort(r, r.w.ends.laneError(r, err))
		err = nil
	case r.lane != lane: // to queue there it must leave this queue first
		r.state |= stateMoves
		w.dispatched.push(r)
		err = nil
	}
	w.dispatching = nil
	if err == nil && r.state&stateAgain != 0 {
		r.state &^= stateAgain
		if r.lane == lane {
			return ucs.InProgress
		}
		r.state |= stateMoves
		w.dispatched.push(r)
	}
	return err
}

// What all protocols do that move data in several calls of the transport: r.offset
// is how far they are, r.frag what the call moves, and the request's completion
// counts the calls that have not ended, and one more until all are made.

// packFragment fills a packet, behind the n bytes of its header, with data from off
// on, at most limit bytes, and notes how much fits.
func (r *Request) packFragment(dst []byte, n, limit, off int) int {
	room := min(len(dst), r.ep.cfg.maxBcopy) - n
	r.frag = r.data.packAt(dst[n:n+min(room, limit)], off)
	return r.frag
}

// fragmentSent accounts for one transport call among several. The completion
// was told to count it.
func (r *Request) fragmentSent(err error) error {
	if err != ucs.InProgress {
		r.comp.Count--
	}
	if err != nil && err != ucs.InProgress {
		return err
	}
	if r.frag <= 0 && r.data.length > 0 {
		return r.packedNothing(r.offset)
	}
	r.offset += r.frag
	return nil
}

// packedNothing is the error of a datatype that gives up before the end.
//
//go:noinline
func (r *Request) packedNothing(offset int) error {
	return fmt.Errorf("ucp: the datatype packed nothing at offset %d of %d: %w", offset, r.data.length, ucs.ErrInvalidParam)
}

// class is the shape of the request's data for the decision tables.
func (r *Request) class() proto.DataClass {
	switch {
	case r.data.class == DatatypeContig:
		return proto.DataContig
	case r.data.class == DatatypeIOV && len(r.data.list) <= r.ep.cfg.maxIOV:
		return proto.DataIOV
	}
	return proto.DataGeneric
}
