package ucp

import (
	"net/netip"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// ErrMode says what happens when the peer of an endpoint fails
// (ucp_err_handling_mode_t).
type ErrMode uint8

// Error handling modes.
const (
	// ErrModeNone gives no guarantees when the peer fails. The error handler is never
	// called; setting one logs a warning.
	ErrModeNone ErrMode = 0

	// ErrModePeer ends every operation of the endpoint, with success or an error, and calls
	// the error handler once.
	ErrModePeer ErrMode = 1
)

// This fails to compile if ErrModePeer has another number than in messages.
var _ = [1]struct{}{}[ErrModePeer-ErrMode(proto.ErrModePeer)]

// EndpointFlags modify the creation of an endpoint.
type EndpointFlags uint32

// Endpoint flags, with C's bit numbers.
const (
	// EndpointNoLoopback makes an endpoint to the same worker connect to the next endpoint
	// created this way, instead of to itself.
	EndpointNoLoopback EndpointFlags = 1 << 1

	// EndpointSendClientID sends WorkerParams.ClientID to the server
	// (ConnRequest.ClientID). It applies to endpoints with a RemoteAddr.
	EndpointSendClientID EndpointFlags = 1 << 2
)

// EndpointParams are the parameters of Worker.NewEndpoint.
type EndpointParams struct {
	// Address is the address of the peer's worker. It is untrusted; what is kept of it is
	// copied. Exactly one of Address, RemoteAddr and ConnRequest must be given.
	Address Address

	// RemoteAddr is the socket address of a server (Worker.NewListener, or C UCX) to
	// connect to. Failures are reported to OnError, not by NewEndpoint: ucs.ErrRejected if
	// the server's application rejects the client, ucs.ErrNotConnected if nothing listens
	// there, ucs.ErrUnreachable if there is no route.
	RemoteAddr netip.AddrPort

	// LocalAddr is the local address to connect from, if RemoteAddr is given. The zero
	// value leaves the choice to the routing table, port 0 to the system.
	LocalAddr netip.AddrPort

	// ConnRequest is a client to accept. It is consumed even if NewEndpoint fails.
	ConnRequest *ConnRequest

	// ClientID, unless 0, is sent to the peer: with RemoteAddr in place of
	// WorkerParams.ClientID (see ConnRequest.ClientID), with ConnRequest as the server's id
	// (see Endpoint.ServerID). C UCX servers send no id to a client: set it on the server
	// side only for clients that are known to read it.
	ClientID uint64

	// ErrMode must be the same at both ends. With ConnRequest it may be left out: the
	// endpoint then has the client's mode.
	ErrMode ErrMode

	// OnError is called once, from progress, with UserData, when the peer has failed; in
	// ErrModePeer only. Operations started afterwards fail with the same error. The
	// endpoint must still be closed.
	OnError func(ep *Endpoint, err error, userData any)

	// UserData is passed to OnError and returned by Worker.StreamPoll.
	UserData any

	Flags EndpointFlags

	// Name names the endpoint in logs; if empty a name is generated.
	Name string
}

// Endpoint is a connection from a worker to one peer. It belongs to its worker's goroutine,
// or in ThreadModeMulti to any.
type Endpoint struct {
	_ noCopy

	w  *Worker
	ue uct.Endpoint // transport endpoint of the lane for active messages

	// Payloads of fewer than shortBelow bytes are sent inline in a tagged message, and of fewer than
	// shortAMBelow in an active message. Both are 0 while nothing may be sent at once: the endpoint waits
	// for the peer's id, has failed or is closed.
	shortBelow   int32
	shortAMBelow int32

	held      int32       // active messages held by the application that it may reply to over this endpoint
	inFlight  int32       // requests of the endpoint in flight
	life      life.End    // life cycle of this endpoint (endpoint_end.go)
	handshake connect.End // agreement with the peer's endpoint (handshake.go)
	ended     uint32      // 1 if failed or closed; in thread mode multi any goroutine may read it

	cfg      *epConfig
	lanes    []lane
	err      error // error that the endpoint failed with
	state    endpointState
	needs    needs // missing conditions that operations wait for, such as the peer's id
	errMode  ErrMode
	connSN   uint16
	flushes  uint16           // flush operations in flight
	localID  proto.EndpointID // id by which the peer names this endpoint
	remoteID proto.EndpointID // id of the peer's endpoint, 0 until wireup
	peer     *peer
	dest     *destination
	process  uct.Process     // the peer's process, if it is on this machine and a lane identifies it
	charge   *endpointCharge // accounting of the endpoint, nil if there is none yet
	pair     *pairing        // state of pairwise lanes or of a connection manager's connection, or nil

	waiting     list.List[Request] // operations that wait for the field needs, and all operations after them
	outstanding list.List[Request] // operations that wait for a message of the peer
	rma         *rmaFlow           // nil before the first one-sided operation
	stream      *stream            // nil before it is first used
	am          *amFlow            // nil before the first active message in fragments

	onError  func(*Endpoint, error, any)
	userData any
	extra    *endpointExtra // nil for most endpoints
}

// endpointExtra is the state that only few endpoints need.
type endpointExtra struct {
	name          string              // given by the application, or generated when it was first needed
	refused       map[laneRoute]error // lanes that could not be created, and why
	closing       *Request            // request of the application's close in progress, nil if there is none
	canceledCount int32               // operations that the close has canceled instead of waiting for them
	ending        error               // cause of a failure that is reported once earlier messages are received
	notice        *notice             // what the endpoint was made for, if it is sent again
	timer         *event.Timer        // timer of awaitPeer, nil if it is not running
	answeredAgain uint8               // number of repeated requests of the peer that were answered
	pieces        *pieceFlow          // nil before the first operation in pieces
}

// ensureExtra returns the endpoint's extra state, which it creates if there is none.
func (ep *Endpoint) ensureExtra() *endpointExtra {
	if ep.extra == nil {
		ep.extra = new(endpointExtra)
	}
	return ep.extra
}

// refused returns the lanes that could not be created, with the error of each.
func (ep *Endpoint) refused() map[laneRoute]error {
	if ep.extra == nil {
		return nil
	}
	return ep.extra.refused
}

func (ep *Endpoint) setRefused(lanes map[laneRoute]error) {
	if lanes != nil || ep.extra != nil {
		ep.ensureExtra().refused = lanes
	}
}

// connected records id, the id of the peer's endpoint, if it was not known before. The operations
// that waited for it start, in order.
func (ws *wireupState) connected(ep *Endpoint, id proto.EndpointID) {
	if ep.remoteID != 0 || id == 0 {
		return
	}
	ep.remoteID = id
	ws.idKnown(ep)
	ep.resolveNeed(needID)
}

// idKnown is called when the id of the peer's endpoint has become known or was verified. The id
// shows whether the peer uses this library. Only then is the peer sent messages about the end of
// this endpoint.
func (ws *wireupState) idKnown(ep *Endpoint) {
	if ep.peer == nil {
		return // the endpoint is connected to itself
	}
	ep.life.NoCloseMessages = !ep.remoteID.Marked() || ep.state&epUnconfirmed != 0
	ep.life.PeerDisconnectsFirst = ep.life.PeerDisconnectsFirst || ep.life.Managed && ep.life.NoCloseMessages
	ep.report(life.Named, nil)
}

// idConfirmed does the same as connected for an id that certainly comes from the peer. Before that,
// a process that claimed to be the migrated peer may have sent another id; idConfirmed then
// replaces that id.
func (ws *wireupState) idConfirmed(ep *Endpoint, id proto.EndpointID) {
	if ep.state&epUnconfirmed != 0 {
		ep.state &^= epUnconfirmed
		if ep.remoteID != id {
			ep.remoteID = id
			ep.peer.ClearMigrated()
		}
		ws.idKnown(ep)
	}
	ws.connected(ep, id)
}

// idReplaced reports whether id, which the reply to the endpoint's request names, differs from the id
// that a request of the peer has named before. Then the peer has closed the endpoint of its request by
// force before it knew this endpoint's id, so that it could not send a close message, and another
// endpoint of the peer has replied.
func (ep *Endpoint) idReplaced(id proto.EndpointID) bool {
	return ep.remoteID != 0 && ep.remoteID != id && ep.state&epUnconfirmed == 0 && ep.peer != nil
}

// setName stores a name that the application gave, cut to EntityNameMax-1 bytes.
func (ep *Endpoint) setName(name string) {
	if name != "" {
		ep.ensureExtra().name = name[:min(len(name), EntityNameMax-1)]
	}
}

// endpointSeq numbers endpoints that have no name.
var endpointSeq platform.Local[atomic.Uint64]

// describe returns the endpoint's name for logs and errors. It generates a name if there is none.
func (ep *Endpoint) describe() string {
	n := ep.ensureExtra()
	if n.name == "" {
		n.name = entityName("", "ucp-ep", endpointSeq.Get())
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

// Transport names the transport and device of a lane.
type Transport struct {
	Name   string
	Device string
}

// Attr describes the endpoint.
func (ep *Endpoint) Attr() EndpointAttr {
	ep.w.owner.acquireRead()
	defer ep.w.owner.releaseRead()
	return EndpointAttr{Name: ep.describe(), Transports: ep.w.selection.transports(ep), Peer: ep.w.peers.peerInfo(ep), UserData: ep.userData}
}

// transports lists the lanes of the endpoint.
func (ls *laneSelection) transports(ep *Endpoint) []Transport {
	list := make([]Transport, 0, len(ep.lanes))
	for i := range ep.lanes {
		r := ep.lanes[i].iface.attr.Resource
		list = append(list, Transport{Name: r.Transport, Device: r.Device})
	}
	return list
}

// Err returns the error that the endpoint failed with, nil if it has not failed.
func (ep *Endpoint) Err() error {
	if ep.missing() {
		return errMissing("Endpoint.Err", ep == nil)
	}
	ep.w.owner.acquireRead()
	err := ep.err
	ep.w.owner.releaseRead()
	return err
}

// endpointState is a set of flags about wireup, keepalive and pending work of the endpoint.
// Endpoint.life describes how the endpoint ends.
type endpointState uint16

const (
	epDraining      endpointState = 1 << iota // the operations of the waiting list are being started
	epPurging                                 // the endpoint's operations are being ended
	epRejected                                // the peer was told that its endpoint cannot be used
	epChecking                                // a keepalive message is in flight
	epWaiting                                 // the last keepalive found operations that wait for the peer
	epUnconfirmed                             // remoteID was claimed by a migrated peer and is not verified
	epUnmapped                                // the peer has asked for data that it could have copied out of mapped memory
	epNotice                                  // made for one notice (sendNotice)
	epNoRemoteWrite                           // the connection of the peer's offers may not write to memory
	epReplied                                 // a reply that agrees on no lanes was sent
)

// UserData returns the value of EndpointParams.UserData, or of the last SetUserData.
func (ep *Endpoint) UserData() any {
	ep.w.owner.acquireRead()
	v := ep.userData
	ep.w.owner.releaseRead()
	return v
}

// SetUserData changes the user data that OnError and Worker.StreamPoll pass on.
func (ep *Endpoint) SetUserData(v any) {
	ep.w.owner.acquireRead()
	ep.userData = v
	ep.w.owner.releaseRead()
}

// SetErrorHandler replaces EndpointParams.OnError; nil removes it. If the handler of an
// endpoint has been called, the new one is not called for the same failure. With
// ErrModeNone the handler is never called.
func (ep *Endpoint) SetErrorHandler(fn func(ep *Endpoint, err error, userData any)) {
	ep.w.owner.acquireRead()
	ep.onError = fn
	if fn != nil && ep.errMode == ErrModeNone && ep.conn() == nil {
		ep.w.handlerNeverCalled()
	}
	ep.w.owner.releaseRead()
}

// handlerNeverCalled warns, once, that the error handler of an endpoint with ErrModeNone is never
// called.
func (w *Worker) handlerNeverCalled() {
	w.ctx.log.WarnOnce("", "OnError is never called for an endpoint with ErrModeNone: set ErrModePeer", zap.String("worker", w.name))
}
