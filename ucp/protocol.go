package ucp

import (
	"encoding/hex"
	"fmt"
	"math"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// A family is one kind of communication, such as tagged messages, with all code that is specific to
// it. The code of Worker, Endpoint, the configuration of endpoints, failure, eviction, Stats and
// Explain iterates over the list of families and names no family. A new family consists of its
// files, a line in the list, and a line in each of the structs below that it needs.

// families lists all families, in the order in which each method is called on them. The state that
// a family ends or releases may be used by families earlier in the list, not by later ones. The
// family of endpoints (wireup) comes last.
var families = []family{
	tagFamily{},
	streamFamily{},
	amFamily{},
	eagerFamily{},
	rndvFamily{},
	rmaFamily{},
	amoFamily{},
	flushFamily{},
	keepaliveFamily{},
	replyFamily{},
	tokenFamily{},
	connFamily{},
	wireupFamily{},
}

// workerState holds the state of the families in a worker.
type workerState struct {
	replies replyState
	eager   eagerState
	rndv    rndvState
	rma     rmaState
	stream  streamState
	am      amState
	tag     tagState // last, because it is large
}

// endpointTables are the decision tables of the families.
type endpointTables struct {
	tag    tagTables
	am     amTables
	stream streamTables
	rndv   *proto.RndvTables
	rma    map[uint64]*proto.RMATables // by the set of lanes that can access a remote key's memory
}

// family is a kind of communication. A family embeds noFamily for the methods that it does not
// need.
type family interface {
	about() familyInfo

	// handlers returns the handlers of the transport messages that the family receives. offers
	// returns the operation in rendezvous offers of the family's messages and their handler, which
	// is nil if the family makes no offers.
	handlers(w *Worker) []handler
	offers(w *Worker) (proto.RndvOp, offerHandler)

	// protocols returns the state machines of the protocols that decision tables can choose.
	// configure makes the tables of an endpoint configuration, which endpoints with the same lanes
	// share. explain returns the tables for Endpoint.Explain.
	protocols() []protocolEntry
	configure(c *epConfig, in *proto.ProtoInput)
	explain(ep *Endpoint, c *epConfig) []proto.TableInfo

	// start is called with a new worker, before the worker receives anything. halt is called when
	// the worker begins to close, so that callbacks cannot restart operations. stop is called at
	// the end of the close, when no endpoint is left.
	start(w *Worker)
	halt(w *Worker)
	stop(w *Worker) error

	// opened and closed are called when an endpoint is opened and closed; claimed when the
	// application takes over an endpoint that a peer opened; closing when no more operations can
	// start on the endpoint. provide is called when operations of the endpoint wait for
	// Endpoint.needs; the family sends the requests that it is responsible for, such as the wireup
	// request for the peer's id.
	opened(ep *Endpoint)
	claimed(ep *Endpoint)
	closing(ep *Endpoint)
	closed(ep *Endpoint)
	provide(ep *Endpoint) error

	// purge ends, with err, the operations of an endpoint that are in lists of the family.
	purge(ep *Endpoint, err error)

	// peerReads is called when a peer has read what was sent to it over an endpoint, so that the
	// peer's queued requests can continue. peerDropped is called when a peer is about to be dropped
	// because it does not read.
	peerReads(ep *Endpoint)
	peerDropped(ep *Endpoint)

	// sourceGone is called when a connection ends that has made the worker hold something. evict
	// drops what the family holds for a connection; reason is the error.
	sourceGone(s *source)
	evict(s *source, reason error)

	// count stores the family's counters in s.
	count(w *Worker, s *Stats)
}

// familyInfo describes a family.
type familyInfo struct {
	name     string
	features Features // any of these features of the context enables the family; 0: always enabled
}

// handler is the function that receives the transport messages with an id.
type handler struct {
	id proto.AMID
	fn uct.AMHandler
}

// protocolEntry is a protocol that decision tables can choose, and the state machine that carries
// it out.
type protocolEntry struct {
	entry   proto.Protocol
	machine protocol
}

// protocolOf holds the state machines of all protocols that decision tables can choose, indexed by
// protocol.
var protocolOf = func() (machines [proto.NumProtocols]protocol) {
	for _, f := range families {
		for _, p := range f.protocols() {
			machines[p.entry] = p.machine
		}
	}
	return machines
}()

// has reports whether the features of the worker's context enable a family.
func (w *Worker) has(f family) bool {
	want := f.about().features
	return want == 0 || w.ctx.params.Features&want != 0
}

// noFamily is a family that does nothing.
type noFamily struct{}

func (noFamily) handlers(*Worker) []handler                     { return nil }
func (noFamily) offers(*Worker) (proto.RndvOp, offerHandler)    { return 0, nil }
func (noFamily) protocols() []protocolEntry                     { return nil }
func (noFamily) configure(*epConfig, *proto.ProtoInput)         {}
func (noFamily) explain(*Endpoint, *epConfig) []proto.TableInfo { return nil }
func (noFamily) start(*Worker)                                  {}
func (noFamily) halt(*Worker)                                   {}
func (noFamily) stop(*Worker) error                             { return nil }
func (noFamily) opened(*Endpoint)                               {}
func (noFamily) claimed(*Endpoint)                              {}
func (noFamily) closing(*Endpoint)                              {}
func (noFamily) closed(*Endpoint)                               {}
func (noFamily) provide(*Endpoint) error                        { return nil }
func (noFamily) purge(*Endpoint, error)                         {}
func (noFamily) peerReads(*Endpoint)                            {}
func (noFamily) peerDropped(*Endpoint)                          {}
func (noFamily) sourceGone(*source)                             {}
func (noFamily) evict(*source, error)                           {}
func (noFamily) count(*Worker, *Stats)                          {}

// logged returns a handler that logs each message at level data and then calls h. If the log does
// not print that level when the worker is made, logged returns h itself, so that messages cost
// nothing more.
func (i *iface) logged(id proto.AMID, h uct.AMHandler) uct.AMHandler {
	w := i.w
	if !w.ctx.log.Enabled(log.LevelData) {
		return h
	}
	most := w.ctx.settings.LogDataSize.Int(math.MaxInt)
	return func(src *uct.Source, data []byte, desc *uct.AMDesc) error {
		if w.ctx.log.Enabled(log.LevelData) {
			fields := []zap.Field{
				zap.String("worker", w.name), zap.Stringer("over", i.attr.Resource), zap.Stringer("message", id), zap.Int("bytes", len(data)),
			}
			if most > 0 {
				fields = append(fields, zap.String("data", hex.EncodeToString(data[:min(len(data), most)])))
			}
			w.ctx.log.Write(log.LevelData, "received a message", fields...)
		}
		return h(src, data, desc)
	}
}

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
// peer may name a request of that protocol.
type protocolKind uint8

const (
	kindControl  protocolKind = iota // a message of the library itself
	kindEager                        // a message sent without a rendezvous
	kindOffer                        // a rendezvous, sending side: the peer may ask for data
	kindWrite                        // a rendezvous, sending side, while data is being sent
	kindAsk                          // a rendezvous, receiving side: waits for data
	kindRead                         // a rendezvous, receiving side, reading the data itself
	kindAccess                       // a one-sided operation directly on the peer's memory
	kindMessages                     // a put or posted atomic operation by messages: answered by CMPL
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

// hooks implements the interfaces of the transports for a request: the owner of a pending entry and
// of a completion, and the packer of a message. It is a type of its own so that Request does not
// have these methods.
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
	case r.lane != lane: // r must leave this lane's queue before it enters that of another lane
		r.state |= stateMoves
		r.dispatchLater()
		err = nil
	}
	w.dispatching = nil
	if err == nil && r.state&stateAgain != 0 {
		r.state &^= stateAgain
		if r.lane == lane {
			return ucs.InProgress
		}
		r.state |= stateMoves
		r.dispatchLater()
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
	r.frag = packData(r, dst[n:n+min(room, limit)], off)
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
	if r.frag <= 0 && r.data.Length > 0 {
		return r.packedNothing(r.offset)
	}
	r.offset += r.frag
	return nil
}

// packedNothing returns the error for a datatype that packs nothing before the end of its data.
//
//go:noinline
func (r *Request) packedNothing(offset int) error {
	return fmt.Errorf("ucp: the datatype packed nothing at offset %d of %d: %w", offset, r.data.Length, ucs.ErrInvalidParam)
}

// class returns the data class of the request for the decision tables.
func (r *Request) class() proto.DataClass {
	switch {
	case r.data.Class == datatype.Contig:
		return proto.DataContig
	case r.data.Class == datatype.IOV && len(r.data.List) <= r.ep.cfg.maxIOV:
		return proto.DataIOV
	}
	return proto.DataGeneric
}
