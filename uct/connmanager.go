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

// ConnManager connects two processes by a socket address that the server listens on. The client
// sends at most MaxPrivate bytes of private data, the server answers with private data or
// rejects, and the client notifies the server when the client has set up its endpoints. After
// that the connection carries no data; each side is notified when the connection ends.
//
// A manager, its listeners and endpoints belong to their worker's goroutine; requests do not
// (ConnRequest). The callbacks in parameter structs are called only inside Worker.Progress. A
// callback may use and close every object, including endpoint, listener and manager; a closed
// object makes no further callbacks.
type ConnManager interface {
	// Attr describes the manager. The result must not be modified.
	Attr() *ConnManagerAttr

	// Listen accepts requests at an address of this machine, or at all of its addresses for
	// 0.0.0.0 or ::; with port 0 the system chooses the port. The error is ucs.ErrBusy if
	// the address is in use.
	Listen(at netip.AddrPort, p ListenParams) (Listener, error)

	// Connect begins to connect. It fails only for local causes: invalid parameters, a local
	// address that does not exist, a limit of the process. OnConnected reports failures of the
	// network and of the server.
	Connect(p ConnectParams) (ConnEndpoint, error)

	// Accept accepts a request from any manager of this component in the process. It consumes
	// the request whether it succeeds or not; after a failure the client is rejected. OnNotify
	// reports the client's notification or failure. The error is ucs.ErrInvalidParam if the
	// request is already consumed, is not of this component, or the manager is closed, and
	// ucs.ErrCanceled if the request's listener was closed.
	Accept(r *ConnRequest, p AcceptParams) (ConnEndpoint, error)

	// Close closes the manager with all its objects. It makes no callbacks. It is idempotent.
	Close() error
}

// ConnManagerAttr describes a manager.
type ConnManagerAttr struct {
	Component  string // name of the component
	MaxPrivate int    // bytes of private data in each direction
}

// Listener receives connection requests.
type Listener interface {
	// Addr returns the address that the listener is bound to, with the actual port.
	Addr() netip.AddrPort

	// Close stops listening. Requests that were not consumed are dropped; accepted connections
	// stay open. It is idempotent.
	Close() error
}

// ListenParams are the parameters of ConnManager.Listen.
type ListenParams struct {
	// Backlog bounds both the system's accept queue and the requests that are not yet consumed.
	// Further clients are rejected. 0 means the system's limit, which also caps all other
	// values.
	Backlog int

	// ReuseAddr allows listening on a port that connections still use, or used until recently:
	// the port of connections that the server closed first stays in use for a minute. It does
	// not allow two open listeners at one address. The settings UCX_TCP_CM_REUSEADDR and
	// UCX_RDMA_CM_REUSEADDR do the same for all listeners.
	ReuseAddr bool

	// Accept decides whether to accept a connection before anything is read from it, see
	// IfaceParams.Accept. Nil accepts all.
	Accept func(SourceInfo) bool

	// OnRequest is called with each request, which must eventually be consumed.
	OnRequest func(l Listener, r *ConnRequest)
}

// ConnRequest is the request of a client that waits for an answer. It is consumed by
// exactly one ConnManager.Accept, on the goroutine of any worker, or one Reject, on any
// goroutine. The fields stay valid afterwards.
type ConnRequest struct {
	Source           SourceInfo // the client; Addr is its address
	LocalAddr        netip.AddrPort
	Device           string // the local device that the client connects to
	RemoteDeviceAddr []byte // device address of the client, for Iface.NewEndpoint and similar calls
	Private          []byte // the client's private data; owned by the receiver

	// Reject rejects the client, which gets ucs.ErrRejected. The errors are those of
	// ConnManager.Accept. Any goroutine may call it. The manager sets it.
	Reject func() error

	// Owner is the manager's side of the request, which Accept uses.
	Owner any
}

// ConnectParams are the parameters of ConnManager.Connect.
type ConnectParams struct {
	Remote netip.AddrPort // address that the server listens on
	Local  netip.AddrPort // local address; if not valid, the route decides; port 0: any port

	// Pack writes the client's private data into dst, which has MaxPrivate bytes, and
	// returns its length. It is called once, when the route to the server is known. An
	// error from it ends the connection and goes to OnConnected. Nil means no data.
	Pack func(a PackArgs, dst []byte) (int, error)

	// OnConnected is called once, with the answer or with the error that ended the connection:
	// ucs.ErrRejected if the server's application rejects; ucs.ErrNotConnected if nothing
	// listens at the address, or the server is gone before it has answered; ucs.ErrUnreachable
	// if there is no route or no answer; ucs.ErrConnectionReset if the server is gone, or
	// violates the protocol, in the middle of its answer.
	OnConnected func(ep ConnEndpoint, a ConnectedArgs)

	// OnDisconnected is called once, after a successful OnConnected, when the connection has
	// ended. err is nil if this side has called Disconnect; otherwise it is usually
	// ucs.ErrConnectionReset, even if the server has disconnected in an orderly way. It may be
	// nil.
	OnDisconnected func(ep ConnEndpoint, err error)
}

// PackArgs are the properties of the connection that are known when the private data is packed.
type PackArgs struct {
	Device    string // the local device on the route to the server
	LocalAddr netip.AddrPort
}

// ConnectedArgs is the outcome of Connect.
type ConnectedArgs struct {
	Err              error  // nil: connected; the other fields are valid only then
	RemoteDeviceAddr []byte // device address of the server
	Private          []byte // the server's private data; owned by the receiver
}

// AcceptParams are the parameters of ConnManager.Accept.
type AcceptParams struct {
	Private []byte // the answer's private data, at most MaxPrivate bytes; copied

	// OnNotify is called once: with nil when the client has called Notify, with an error if the
	// client is gone before that or has violated the protocol, which ends the connection. It
	// may be nil.
	OnNotify func(ep ConnEndpoint, err error)

	// OnDisconnected is as in ConnectParams; it is called only after OnNotify was called with
	// nil.
	OnDisconnected func(ep ConnEndpoint, err error)
}

// ConnEndpoint is one end of a connection made by a manager.
type ConnEndpoint interface {
	// Notify notifies the server that the client has set up its endpoints. The client calls it
	// once, in OnConnected or later. The error is ucs.ErrNotConnected before and after the
	// connection, ucs.ErrUnsupported at the server's end, ucs.ErrInvalidParam for a second
	// call.
	Notify() error

	// Disconnect announces that this side is done. The connection ends when the other side has
	// announced the same (OnDisconnected). The error is ucs.ErrBusy if there is no connection
	// yet, and ucs.ErrNotConnected if there will be none. Further calls do nothing.
	Disconnect() error

	// LocalAddr and RemoteAddr return the addresses of the two ends. An address that is not
	// known yet is not valid. The addresses stay available after the connection has ended.
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// Close releases the endpoint at once; the other side is notified that the connection has
	// ended. No callback is made afterwards. Close is idempotent.
	Close()
}
