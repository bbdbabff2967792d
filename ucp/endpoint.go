package ucp

import (
	"net/netip"
	"sync/atomic"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// ErrMode says what happens when the peer of an endpoint fails
// (ucp_err_handling_mode_t).
type ErrMode uint8

// Error handling modes.
const (
	// ErrModeNone promises nothing: the error handler is never called. A handler that is given
	// all the same is warned of in the log.
	ErrModeNone ErrMode = 0

	// ErrModePeer ends every operation of the endpoint, with success or an
	// error, and calls the error handler once.
	ErrModePeer ErrMode = 1
)

// The modes have the numbers that travel.
var _ = [1]struct{}{}[ErrModePeer-ErrMode(proto.ErrModePeer)]

// EndpointFlags modify the creation of an endpoint.
type EndpointFlags uint32

// Endpoint flags, with C's bit numbers.
const (
	// EndpointNoLoopback makes an endpoint toward its own worker connect to the next
	// endpoint created the same way instead of to itself.
	EndpointNoLoopback EndpointFlags = 1 << 1

	// EndpointSendClientID tells the server WorkerParams.ClientID (ConnRequest.ClientID).
	// It is for endpoints with a RemoteAddr.
	EndpointSendClientID EndpointFlags = 1 << 2
)

// EndpointParams are the parameters of Worker.NewEndpoint.
type EndpointParams struct {
	// Address is the address of the peer's worker. It is untrusted and copied
	// where kept. Exactly one of Address, RemoteAddr and ConnRequest must be given.
	Address Address

	// RemoteAddr is where a server listens (Worker.NewListener, or C UCX) that the
	// endpoint is to connect to. That it cannot is told to OnError, not by NewEndpoint:
	// ucs.ErrRejected by the server's application, ucs.ErrNotConnected where nobody
	// listens, ucs.ErrUnreachable where there is no way.
	RemoteAddr netip.AddrPort

	// LocalAddr is where to connect from, if RemoteAddr is given; not valid for what
	// the routes say, port 0 for any.
	LocalAddr netip.AddrPort

	// ConnRequest is a client to be accepted; it is consumed, whatever comes of it.
	ConnRequest *ConnRequest

	// ClientID, unless 0, is told to the peer of an endpoint that is made with RemoteAddr, in
	// place of WorkerParams.ClientID (ConnRequest.ClientID), or with ConnRequest
	// (Endpoint.ServerID). C UCX tells a client nothing of the kind: answer only clients
	// that are known to look.
	ClientID uint64

	// ErrMode must be the same at both ends.
	ErrMode ErrMode

	// OnError is called once, from progress, when the peer has failed, in
	// ErrModePeer only, with UserData. Operations started afterwards fail with
	// the same error; the endpoint must still be closed.
	OnError func(ep *Endpoint, err error, userData any)

	// UserData is passed to OnError, and told by Worker.StreamPoll.
	UserData any

	Flags EndpointFlags

	// Name names the endpoint in logs; one is made up if empty.
	Name string
}

// Endpoint is the way from a worker to one peer. It belongs to its worker's
// goroutine, or in ThreadModeMulti to any.
type Endpoint struct {
	_ noCopy

	w  *Worker
	ue uct.Endpoint // of the lane for active messages

	// short is the largest payload of a tagged message that goes inline, shortAM that
	// of an active message, -1 while nothing may be sent straight away: the endpoint
	// waits for the peer's id, has failed or is closed.
	short   int32
	shortAM int32
	held    int32    // active messages in the hands of the user that lead here
	under   int32    // requests of it that are under way
	life    life.End // how it ends (endpoint_end.go)
	ended   uint32   // in thread mode multi, what any goroutine may read: 1 if it has failed, or was closed

	cfg      *epConfig
	lanes    []lane
	err      error // why it failed
	state    endpointState
	lacks    needs // that operations wait for
	errMode  ErrMode
	connSN   uint16
	flushes  uint16           // under way
	localID  proto.EndpointID // by which the peer names this endpoint
	remoteID proto.EndpointID // the peer's name for its end, 0 until wireup
	peer     *peer
	where    *whereabouts
	process  uct.Process // the peer's, where it is on this machine and a lane knows
	bill     *bill       // who pays for it, nil if nobody
	pair     *pairing    // of lanes that are connected with one endpoint of the peer's, nil if there are none

	waiting     requestList // operations that need remoteID, and all after them
	outstanding requestList // operations that wait for a message of the peer
	rma         *rmaFlow    // nil before the first one-sided operation
	stream      *stream     // nil before it is first used
	am          *amFlow     // nil before the first active message in fragments

	onError  func(*Endpoint, error, any)
	userData any
	notes    *endpointNotes // nil for most
}

// endpointNotes is what few endpoints have.
type endpointNotes struct {
	name    string              // given, or made up when it was asked for
	refused map[laneRoute]error // lanes that could not be created, and why
	closing *Request            // the application's close that is under way
	gaveUp  int32               // operations that it did not wait for
	ending  error               // why it will have failed, once what has come before is received
	timer   *event.Timer        // of a close that leaves it to the peer to disconnect
}

// note returns the notes, to be changed.
func (ep *Endpoint) note() *endpointNotes {
	if ep.notes == nil {
		ep.notes = new(endpointNotes)
	}
	return ep.notes
}

// refused are the lanes that could not be created.
func (ep *Endpoint) refused() map[laneRoute]error {
	if ep.notes == nil {
		return nil
	}
	return ep.notes.refused
}

func (ep *Endpoint) setRefused(lanes map[laneRoute]error) {
	if lanes != nil || ep.notes != nil {
		ep.note().refused = lanes
	}
}

// connected is called when the peer's id becomes known: what waited starts, in
// order.
func (ep *Endpoint) connected(id proto.EndpointID) {
	if ep.remoteID != 0 || id == 0 {
		return
	}
	ep.remoteID = id
	ep.named()
	ep.obtain(needID)
}

// named is told that the peer's id is known, or known for certain. Whether the peer's end is
// one of this library, which is told how this one ends, the id says.
func (ep *Endpoint) named() {
	if ep.peer == nil {
		return // it leads to itself
	}
	ep.life.Deaf = !ep.remoteID.Marked() || ep.state&epHearsay != 0
	ep.life.Patient = ep.life.Patient || ep.life.Managed && ep.life.Deaf
	ep.report(life.Named, nil)
}

// identified is connected where the peer itself has said its id, which may not be what
// a roamer has said. Then that was not the peer.
func (ep *Endpoint) identified(id proto.EndpointID) {
	if ep.state&epHearsay != 0 {
		ep.state &^= epHearsay
		if ep.remoteID != id {
			ep.remoteID = id
			ep.peer.remember().roams = netip.Addr{}
		}
		ep.named()
	}
	ep.connected(id)
}

// setName keeps a name that was given.
func (ep *Endpoint) setName(name string) {
	if name != "" {
		ep.note().name = name[:min(len(name), EntityNameMax-1)]
	}
}

// endpointSeq numbers endpoints without a name.
var endpointSeq atomic.Uint64

// describe names the endpoint for people.
func (ep *Endpoint) describe() string {
	n := ep.note()
	if n.name == "" {
		n.name = entityName("", "ucp-ep", &endpointSeq)
	}
	return n.name
}

// EndpointAttr describes an endpoint.
type EndpointAttr struct {
	Name       string
	Transports []Transport // one entry per lane
	Peer       PeerInfo
	UserData   any
}

// Transport is the transport and device of a lane.
type Transport struct {
	Name   string
	Device string
}

// Attr describes the endpoint.
func (ep *Endpoint) Attr() EndpointAttr {
	ep.w.look()
	defer ep.w.unlook()
	return EndpointAttr{Name: ep.describe(), Transports: ep.transports(), Peer: ep.peerInfo(), UserData: ep.userData}
}

// transports lists the lanes of the endpoint.
func (ep *Endpoint) transports() []Transport {
	list := make([]Transport, 0, len(ep.lanes))
	for i := range ep.lanes {
		r := ep.lanes[i].iface.attr.Resource
		list = append(list, Transport{Name: r.Transport, Device: r.Device})
	}
	return list
}

// Err returns why the endpoint failed, nil while it has not.
func (ep *Endpoint) Err() error {
	if ep.missing() {
		return errMissing("Endpoint.Err", ep == nil)
	}
	ep.w.look()
	err := ep.err
	ep.w.unlook()
	return err
}
