package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// A family is one kind of communication, with all that the engine must know about it. Worker,
// Endpoint, the configuration of endpoints, failure, eviction, Stats and Explain iterate over the
// list of families and name no family. A new family consists of its files, a line in the list, and
// a line in each of the structs below that it needs.

// families lists all families, in the order in which each method is called on them. What a family
// ends or releases must not need a family later in the list. Endpoints go last.
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
	token   tokenState
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
	rma    map[uint64]*proto.RMATables // by the set of lanes that can access the memory of a key
}

// family is a kind of communication. A family embeds noFamily for the methods that it does not
// need.
type family interface {
	about() familyInfo

	// handlers returns the handlers of the family's active messages. offers returns the handler of
	// rendezvous offers of the family's messages, nil if the family makes none.
	handlers(w *Worker) []handler
	offers(w *Worker) (proto.RndvOp, offerHandler)

	// protocols returns the state machines of entries in decision tables. configure makes the tables
	// of an endpoint configuration, which endpoints with the same lanes share. explain returns the
	// tables.
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
	// start on the endpoint. provide requests what operations of the endpoint wait for, if it is
	// the family's to provide.
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

	// sourceGone is called when a connection ends for which the worker holds something. evict drops
	// what the family holds for a connection, for the given reason.
	sourceGone(s *source)
	evict(s *source, reason error)

	// count sets the family's counters in s.
	count(w *Worker, s *Stats)
}

// familyInfo describes a family.
type familyInfo struct {
	name     string
	features Features // any of them turns the family on; 0: it is always on
}

// handler is the receiver of an active message.
type handler struct {
	id proto.AMID
	fn uct.AMHandler
}

// protocolEntry is the state machine of an entry in decision tables.
type protocolEntry struct {
	entry   proto.Protocol
	machine protocol
}

// protocolOf holds the state machines of all entries of decision tables, by entry.
var protocolOf = func() (machines [proto.NumProtocols]protocol) {
	for _, f := range families {
		for _, p := range f.protocols() {
			machines[p.entry] = p.machine
		}
	}
	return machines
}()

// has reports whether the features of the worker's context turn a family on.
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
