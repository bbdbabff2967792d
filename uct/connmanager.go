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

// ConnManager brings two processes together that know no more of each other than an
// address to listen at. The client says something of at most MaxPrivate bytes, the server
// answers in kind or rejects, and the client notifies the server when it has set up what
// the data was about. What they are connected by carries no more after that but its end,
// of which each side is told.
//
// A manager, its listeners and endpoints belong to their worker's goroutine; requests
// do not (ConnRequest). The functions of parameters are called inside Worker.Progress and
// nowhere else. They may use and close everything, endpoint, listener and manager
// included; what is closed calls them no more.
type ConnManager interface {
	// Attr describes the manager. The result is not to be modified.
	Attr() *ConnManagerAttr

	// Listen takes requests at an address of this machine, or at all where that is
	// 0.0.0.0 or ::; with port 0 at a port that the system chooses. ucs.ErrBusy: somebody
	// listens there already.
	Listen(at netip.AddrPort, p ListenParams) (Listener, error)

	// Connect begins to connect. It fails only for what is wrong here: parameters, a
	// local address that is none, a limit of the process. What the network and the
	// server say arrives at OnConnected.
	Connect(p ConnectParams) (ConnEndpoint, error)

	// Accept answers a request, of any manager of this component in the process, and
	// has consumed it whether it succeeds or not; after a failure the client is rejected.
	// What the client does meanwhile arrives at OnNotify. ucs.ErrInvalidParam: the
	// request is consumed already, or none of this component, or the manager is closed.
	// ucs.ErrCanceled: the request's listener was closed.
	Accept(r *ConnRequest, p AcceptParams) (ConnEndpoint, error)

	// Close closes the manager with all that it has open. It calls nobody. Idempotent.
	Close() error
}

// ConnManagerAttr describes a manager.
type ConnManagerAttr struct {
	Component  string // its name
	MaxPrivate int    // bytes of private data in each direction
}

// Listener is where requests arrive.
type Listener interface {
	// Addr is where it listens, with the real port.
	Addr() netip.AddrPort

	// Close ends it. Requests that nobody has consumed are dropped; connections that
	// were accepted live on. Idempotent.
	Close() error
}

// ListenParams are the parameters of ConnManager.Listen.
type ListenParams struct {
	// Backlog is how many clients may wait, in the system and once more as requests
	// that nobody has consumed. Those beyond are rejected. 0: as many as the system allows,
	// which is the limit of all other values, too.
	Backlog int

	// ReuseAddr listens at an address although connections to it have just ended, or go on:
	// those that the server has closed first keep its port for a minute. It does not take
	// the address of a listener that is open. The settings UCX_TCP_CM_REUSEADDR and
	// UCX_RDMA_CM_REUSEADDR do the same for all listeners.
	ReuseAddr bool

	// Accept decides on a connection before anything is read from it, see
	// IfaceParams.Accept. Nil: all are welcome.
	Accept func(SourceInfo) bool

	// OnRequest is given each request. It must be consumed some time.
	OnRequest func(l Listener, r *ConnRequest)
}

// ConnRequest is a client that waits for an answer. Exactly one ConnManager.Accept, on
// any worker's goroutine, or one Reject, on any, consumes it. The fields stay valid after that.
type ConnRequest struct {
	Source           SourceInfo // the client; Addr is its address
	LocalAddr        netip.AddrPort
	Device           string // the local device that it reaches us by
	RemoteDeviceAddr []byte // the client's, for uct.Iface.NewEndpoint and the like
	Private          []byte // what it says; the receiver's

	// Owner is the manager's side of the request.
	Owner ConnRequestOwner
}

// ConnRequestOwner is what a manager keeps of a request.
type ConnRequestOwner interface {
	// RejectRequest is ConnRequest.Reject.
	RejectRequest() error
}

// Reject tells the client that it is not wanted: it gets ucs.ErrRejected. The errors
// are those of ConnManager.Accept. Any goroutine may call it.
func (r *ConnRequest) Reject() error { return r.Owner.RejectRequest() }

// ConnectParams are the parameters of ConnManager.Connect.
type ConnectParams struct {
	Remote netip.AddrPort // where the server listens
	Local  netip.AddrPort // where to connect from; not valid: what the routes say, port 0: any

	// Pack writes what the client has to say into dst, which has MaxPrivate bytes, and
	// returns its length. It is called once, when the way to the server is known; its error
	// is the end, and given to OnConnected. Nil: nothing.
	Pack func(a PackArgs, dst []byte) (int, error)

	// OnConnected is called once, with the answer or with the error that is the end:
	// ucs.ErrRejected by the server's application, ucs.ErrNotConnected where nobody
	// listens or the server is gone before it has said anything, ucs.ErrUnreachable where
	// the network knows no way or nobody answers, ucs.ErrConnectionReset if the server
	// is gone, or breaks the protocol, in the middle of its answer.
	OnConnected func(ep ConnEndpoint, a ConnectedArgs)

	// OnDisconnected is called once after a success: the connection has ended. A nil err
	// says that it was this side that wanted it to (Disconnect); else it is mostly
	// ucs.ErrConnectionReset, also for a server that has disconnected in good order.
	// Nil: nobody wants to know.
	OnDisconnected func(ep ConnEndpoint, err error)
}

// PackArgs is what is known when the data is packed.
type PackArgs struct {
	Device    string // the local device on the way to the server
	LocalAddr netip.AddrPort
}

// ConnectedArgs is the outcome of Connect.
type ConnectedArgs struct {
	Err              error  // nil: connected. The rest is there only then.
	RemoteDeviceAddr []byte // the server's
	Private          []byte // its answer; the receiver's
}

// AcceptParams are the parameters of ConnManager.Accept.
type AcceptParams struct {
	Private []byte // the answer, at most MaxPrivate bytes; copied

	// OnNotify is called once: with nil when the client has notified us, with an error
	// if it has gone without that or broke the protocol, which is the end. Nil: nobody
	// wants to know.
	OnNotify func(ep ConnEndpoint, err error)

	// OnDisconnected is that of ConnectParams, after OnNotify with nil.
	OnDisconnected func(ep ConnEndpoint, err error)
}

// ConnEndpoint is one end of a connection made by a manager.
type ConnEndpoint interface {
	// Notify tells the server that the client has set up what it needs, once, in
	// OnConnected or later. ucs.ErrNotConnected: not yet, or not any more.
	// ucs.ErrUnsupported: this is the server's end. ucs.ErrInvalidParam: done before.
	Notify() error

	// Disconnect says that nothing will come from this side any more. The connection has ended
	// when the other side says so, too (OnDisconnected). ucs.ErrBusy: there is no
	// connection yet. ucs.ErrNotConnected: there will be none. More than once does nothing.
	Disconnect() error

	// LocalAddr and RemoteAddr are where the ends are; not valid while not known. They
	// stay the same after the end.
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// Close releases the endpoint at once; the other side is told that the connection
	// has ended. No function is called any more. Idempotent.
	Close()
}
