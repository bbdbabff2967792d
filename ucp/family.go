package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// A family is one kind of communication, with everything that the engine has to
// know of it. Worker, Endpoint, the configuration of endpoints, failure, eviction,
// Stats and Explain go through the list and know no family by name. A new family is
// its files, its line in the list, and a line in each of the structs below that it
// needs.

// families are all there are. What one of them ends or gives back must not need one
// behind it: endpoints go last.
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

// workerState is what the families keep for a worker.
type workerState struct {
	replies replyState
	eager   eagerState
	rndv    rndvState
	rma     rmaState
	token   tokenState
	stream  streamState
	am      amState
	tag     tagState // the last, as it is large
}

// endpointTables are the decision tables of the families.
type endpointTables struct {
	tag    tagTables
	am     amTables
	stream streamTables
	rndv   *proto.RndvTables
	rma    map[uint64]*proto.RMATables // by the lanes that open the memory of a key
}

// family is a kind of communication. Embed noFamily for what it has nothing to say
// about.
type family interface {
	about() familyInfo

	// handlers are the receivers of its active messages, and offers that of the
	// offers of its messages, nil if they are never offered.
	handlers(w *Worker) []handler
	offers(w *Worker) (proto.RndvOp, offerHandler)

	// protocols are the state machines of entries in decision tables; configure
	// makes the tables of endpoints with the same lanes, explain returns them.
	protocols() []protocolEntry
	configure(c *epConfig, in *proto.ProtoInput)
	explain(ep *Endpoint, c *epConfig) []proto.TableInfo

	// start is called with a new worker, before it receives anything; halt when it
	// begins to close, for callbacks to find nothing that they could start anew; stop
	// at its end, when no endpoint is left.
	start(w *Worker)
	halt(w *Worker)
	stop(w *Worker) error

	// opened and closed are told of the life of an endpoint, claimed that one which a
	// peer has opened is the user's now, closing that nothing more will be asked of it.
	// provide is asked to get what operations of it wait for, as far as that is the
	// family's business.
	opened(ep *Endpoint)
	claimed(ep *Endpoint)
	closing(ep *Endpoint)
	closed(ep *Endpoint)
	provide(ep *Endpoint) error

	// purge ends the operations of an endpoint that are in lists of the family's.
	purge(ep *Endpoint, err error)

	// peerReads is told that a peer has read what it was sent over an endpoint, so that its
	// questions need not be held back any more; peerDropped that it does not, and is about
	// to be dropped.
	peerReads(ep *Endpoint)
	peerDropped(ep *Endpoint)

	// sourceGone is told of the end of a connection that made the worker hold
	// something; evict drops what it holds for one.
	sourceGone(s *source)
	evict(s *source, reason error)

	// count fills in counters.
	count(w *Worker, s *Stats)
}

// familyInfo describes a family.
type familyInfo struct {
	name     string
	features Features // any of them turns it on; 0: always there
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

// protocolOf are the state machines of all entries.
var protocolOf = func() (machines [proto.NumProtocols]protocol) {
	for _, f := range families {
		for _, p := range f.protocols() {
			machines[p.entry] = p.machine
		}
	}
	return machines
}()

// has reports whether the context was made for a family.
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
