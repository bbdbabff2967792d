package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// protocol is one way to carry out an operation. A protocol is a value without state: its state
// between steps is in the request. Its methods resume at the step stored in the request and never
// block. A protocol embeds basics for the methods that it does not implement itself.
type protocol interface {
	about() protocolInfo

	// progress sends what can be sent. It returns nil if there is nothing more to send now: the
	// request is finished, or waits for a completion or a message. ucs.ErrNoResource asks the
	// caller to queue the request. Any other error aborts the request.
	progress(r *Request) error

	// completed is called when the transport is done with everything that was sent.
	completed(r *Request, err error)

	// pack writes the message or header being sent and returns its length; unpack takes bytes
	// that the transport has read.
	pack(r *Request, dst []byte) int
	unpack(r *Request, src []byte)

	// abort ends the request with err before its operation is done: the request cannot go on,
	// or its endpoint has failed. Parts of it may still be with the transport.
	abort(r *Request, err error)

	// release releases what the protocol acquired, at the end of the operation, whose result is
	// in r.err. Request.releaseResources releases what any request may hold.
	release(r *Request)
}

// protocolInfo describes a protocol.
type protocolInfo struct {
	name  string
	kind  protocolKind
	needs needs // what the protocol needs before it can start
}

// protocolKind is the role of a protocol in a message exchange. It decides which messages of the
// peer may refer to a request of that protocol.
type protocolKind uint8

const (
	kindControl  protocolKind = iota // a message of the library itself
	kindEager                        // a message sent without a rendezvous
	kindOffer                        // a rendezvous, sending side: the peer may ask for data
	kindWrite                        // a rendezvous, sending side, while data is being sent
	kindAsk                          // a rendezvous, receiving side: waits for data
	kindRead                         // a rendezvous, receiving side, reading the data itself
	kindAccess                       // a one-sided operation directly on the peer's memory
	kindMessages                     // a one-sided operation by messages whose answers are only counted
	kindGet                          // a get by messages: answered with data
	kindFetch                        // an atomic operation by messages: answered with a word
	kindAnswer                       // the answer to a one-sided operation of the peer
	kindFlush
	kindClose // a flush after which the endpoint is released
)

// basics implements the methods of protocol that most protocols share.
type basics struct{}

func (basics) completed(r *Request, err error) { r.finish(err) }
func (basics) pack(*Request, []byte) int       { return 0 }
func (basics) unpack(*Request, []byte)         {}
func (basics) release(*Request)                {}

// abort ends the request. If parts of it are with the transport, their completion ends it.
func (basics) abort(r *Request, err error) {
	if r.comp.Count > 1 {
		r.comp.Done(err)
		return
	}
	r.finish(err)
}

// hooks is a request as the transports see it: the owner of a pending entry and of a completion,
// and the packer of a message. It is a type of its own so that these methods are not part of
// Request.
type hooks Request

var (
	_ uct.PendingOwner    = (*hooks)(nil)
	_ uct.CompletionOwner = (*hooks)(nil)
	_ uct.Packer          = (*hooks)(nil)
	_ uct.Unpacker        = (*hooks)(nil)
)

// hooks returns the request in the form that transports take.
func (r *Request) hooks() *hooks { return (*hooks)(r) }

// Completed implements uct.CompletionOwner. An operation that the transport canceled because the
// endpoint has failed ends with the cause of the failure.
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

// Dispatch implements uct.PendingOwner. While it runs, the request is still at the head of the
// lane's queue, and the queue lets sends through. Therefore the end of the request, which may run a
// callback that sends or let the object be reused, is deferred to the end of the progress round.
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
	case r.lane != lane: // it must leave this lane's queue before it enters the other
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

// Protocols that move data in several transport calls have the following in common: r.offset is the
// progress in bytes, r.frag the bytes of the current call, and the request's completion counts the
// calls that have not ended, plus one until all are made.

// packFragment fills a packet, after the n bytes of its header, with at most limit bytes of data
// from offset off. It stores the number of bytes in r.frag and returns it.
func (r *Request) packFragment(dst []byte, n, limit, off int) int {
	room := min(len(dst), r.ep.cfg.maxBcopy) - n
	r.frag = r.data.packAt(dst[n:n+min(room, limit)], off)
	return r.frag
}

// fragmentSent accounts for one transport call among several, which the completion already counts.
// err is the result of the call. fragmentSent returns an error if the request cannot go on now.
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

// packedNothing returns the error for a datatype that packs nothing before the end of its data.
//
//go:noinline
func (r *Request) packedNothing(offset int) error {
	return fmt.Errorf("ucp: the datatype packed nothing at offset %d of %d: %w", offset, r.data.length, ucs.ErrInvalidParam)
}

// class returns the data class of the request for the decision tables.
func (r *Request) class() proto.DataClass {
	switch {
	case r.data.class == DatatypeContig:
		return proto.DataContig
	case r.data.class == DatatypeIOV && len(r.data.list) <= r.ep.cfg.maxIOV:
		return proto.DataIOV
	}
	return proto.DataGeneric
}
