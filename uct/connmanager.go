package uct

import (
	"net/netip"

	"github.com/ucx-go/ucx/ucs/config"
)

// ConnManagerComponent is a Component that has a connection manager
// (ComponentFlagCM). Its settings are read during the call and not kept.
type ConnManagerComponent interface {
	Component

	// OpenConnManager opens a manager that is progressed by w.
	OpenConnManager(w *Worker, cfg *config.Set) (ConnManager, error)
}

// ConnManager connects two processes by a socket address that the server listens on. The
// client sends at most MaxPrivate bytes of private data, the server answers with private
// data or rejects, and the client notifies the server when it has set up its endpoints.
// After that the connection carries only its end, of which each side is notified.
//
// A manager, its listeners and endpoints belong to their worker's goroutine; requests do
// not (ConnRequest). The functions of parameters are called only inside Worker.Progress.
// They may use and close every object, including endpoint, listener and manager; a closed
// object calls no function any more.
type ConnManager interface {
	// Attr describes the manager. The result must not be modified.
	Attr() *ConnManagerAttr

	// Listen accepts requests at an address of this machine, or at all of its addresses for
	// 0.0.0.0 or ::; with port 0 the system chooses the port. The error is ucs.ErrBusy if
	// the address is in use.
	Listen(at netip.AddrPort, p ListenParams) (Listener, error)

	// Connect begins to connect. It fails only for local causes: parameters, a local
	// address that does not exist, a limit of the process. Failures of the network and of
	// the server arrive at OnConnected.
	Connect(p ConnectParams) (ConnEndpoint, error)

	// Accept answers a request, of any manager of this component in the process. It
	// consumes the request whether it succeeds or not; after a failure the client is
	// rejected. Later events of the client arrive at OnNotify. The error is
	// ucs.ErrInvalidParam if the request is already consumed, is not of this component, or
	// the manager is closed, and ucs.ErrCanceled if the request's listener was closed.
	Accept(r *ConnRequest, p AcceptParams) (ConnEndpoint, error)

	// Close closes the manager with all its objects. It calls no function of the
	// parameters. It is idempotent.
	Close() error
}

// ConnManagerAttr describes a manager.
type ConnManagerAttr struct {
	Component  string // its name
	MaxPrivate int    // bytes of private data in each direction
}

// Listener receives connection requests.
type Listener interface {
	// Addr returns the address that it listens on, with the actual port.
	Addr() netip.AddrPort

	// Close stops listening. Requests that were not consumed are dropped; accepted
	// connections go on. It is idempotent.
	Close() error
}

// ListenParams are the parameters of ConnManager.Listen.
type ListenParams struct {
	// Backlog is the number of clients that may wait in the system, and again as requests
	// that were not consumed. Further clients are rejected. 0 means the system's limit,
	// which also limits all other values.
	Backlog int

	// ReuseAddr listens on a port that connections still use, or used until recently: the
	// port of connections that the server closed first stays in use for a minute. It does
	// not take over the address of an open listener. The settings UCX_TCP_CM_REUSEADDR and
	// UCX_RDMA_CM_REUSEADDR do the same for all listeners.
	ReuseAddr bool

	// Accept decides about a connection before anything is read from it, see
	// IfaceParams.Accept. Nil accepts all.
	Accept func(SourceInfo) bool

	// OnRequest is called with each request, which must be consumed at some time.
	OnRequest func(l Listener, r *ConnRequest)
}

// ConnRequest is the request of a client that waits for an answer. It is consumed by
// exactly one ConnManager.Accept, on the goroutine of any worker, or one Reject, on any
// goroutine. The fields stay valid afterwards.
type ConnRequest struct {
	Source           SourceInfo // the client; Addr is its address
	LocalAddr        netip.AddrPort
	Device           string // the local device that the client connects to
	RemoteDeviceAddr []byte // the client's, for uct.Iface.NewEndpoint and similar calls
	Private          []byte // the client's private data; belongs to the receiver

	// Owner is the manager's side of the request.
	Owner ConnRequestOwner
}

// ConnRequestOwner is the manager's part of a request.
type ConnRequestOwner interface {
	// RejectRequest implements ConnRequest.Reject.
	RejectRequest() error
}

// Reject rejects the client, which gets ucs.ErrRejected. The errors are those of
// ConnManager.Accept. Any goroutine may call it.
func (r *ConnRequest) Reject() error { return r.Owner.RejectRequest() }

// ConnectParams are the parameters of ConnManager.Connect.
type ConnectParams struct {
	Remote netip.AddrPort // address that the server listens on
	Local  netip.AddrPort // local address to connect from; not valid: by the routing table, port 0: any

	// Pack writes the client's private data into dst, which has MaxPrivate bytes, and
	// returns its length. It is called once, when the route to the server is known. An
	// error from it ends the connection and goes to OnConnected. Nil means no data.
	Pack func(a PackArgs, dst []byte) (int, error)

	// OnConnected is called once, with the answer or with the error that ended the
	// connection: ucs.ErrRejected by the server's application; ucs.ErrNotConnected if
	// nothing listens there, or the server is gone before it has answered;
	// ucs.ErrUnreachable if there is no route or no answer; ucs.ErrConnectionReset if the
	// server is gone, or violates the protocol, in the middle of its answer.
	OnConnected func(ep ConnEndpoint, a ConnectedArgs)

	// OnDisconnected is called once, after a success, when the connection has ended. err is
	// nil if this side has called Disconnect; otherwise it is usually
	// ucs.ErrConnectionReset, even if the server has disconnected in an orderly way. It may
	// be nil.
	OnDisconnected func(ep ConnEndpoint, err error)
}

// PackArgs is what is known when the private data is packed.
type PackArgs struct {
	Device    string // the local device on the route to the server
	LocalAddr netip.AddrPort
}

// ConnectedArgs is the outcome of Connect.
type ConnectedArgs struct {
	Err              error  // nil: connected; the other fields are valid only then
	RemoteDeviceAddr []byte // the server's
	Private          []byte // the server's private data; belongs to the receiver
}

// AcceptParams are the parameters of ConnManager.Accept.
type AcceptParams struct {
	Private []byte // the answer's private data, at most MaxPrivate bytes; copied

	// OnNotify is called once: with nil when the client has called Notify, with an error if
	// it has gone before or has violated the protocol, which ends the connection. It may be
	// nil.
	OnNotify func(ep ConnEndpoint, err error)

	// OnDisconnected is as in ConnectParams; it is called after OnNotify with nil.
	OnDisconnected func(ep ConnEndpoint, err error)
}

// ConnEndpoint is one end of a connection made by a manager.
type ConnEndpoint interface {
	// Notify tells the server that the client has set up its endpoints: once, in
	// OnConnected or later. The error is ucs.ErrNotConnected before and after the
	// connection, ucs.ErrUnsupported at the server's end, ucs.ErrInvalidParam for a second
	// call.
	Notify() error

	// Disconnect announces that this side is done. The connection has ended when the other
	// side has announced the same (OnDisconnected). The error is ucs.ErrBusy if there is no
	// connection yet, and ucs.ErrNotConnected if there will be none. Further calls do
	// nothing.
	Disconnect() error

	// LocalAddr and RemoteAddr return the addresses of the ends; they are not valid while
	// not known. They stay the same after the end.
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// Close releases the endpoint at once; the other side is notified that the connection
	// has ended. No function is called afterwards. It is idempotent.
	Close()
}
