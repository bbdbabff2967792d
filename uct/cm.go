package uct

import "net/netip"

// ConnManager connects endpoints by socket address.
type ConnManager interface {
	// MaxPrivateData is the number of bytes either side can attach.
	MaxPrivateData() int

	// Listen accepts connection requests on addr; port 0 picks one.
	Listen(addr netip.AddrPort, p ListenerParams) (CMListener, error)

	// NewEndpoint creates the client side (Remote set) or the server side
	// (Request set) of a connection.
	NewEndpoint(p CMEndpointParams) (Endpoint, error)

	// Close closes the manager. Its listeners and endpoints must be closed.
	Close() error
}

// ListenerParams are the parameters of ConnManager.Listen.
type ListenerParams struct {
	Backlog int

	// OnRequest is told of a client. The request must be accepted (by
	// CMEndpointParams.Request) or rejected, once. It runs inside progress.
	OnRequest func(r CMRequest)
}

// CMListener is a listening socket address.
type CMListener interface {
	Addr() netip.AddrPort
	Reject(r CMRequest) error
	Close() error
}

// CMRequest is a client that asks for a connection. PrivateData is untrusted.
type CMRequest interface {
	ClientAddr() netip.AddrPort
	PrivateData() []byte
}

// CMEndpointParams are the parameters of ConnManager.NewEndpoint. All functions
// run inside progress.
type CMEndpointParams struct {
	Remote  netip.AddrPort
	Local   netip.AddrPort // optional, client side
	Request CMRequest

	PrivateData []byte // server to client, with Request

	// OnResolved is told on the client which device leads to Remote; it then
	// calls Endpoint.Connect with its private data.
	OnResolved func(ep Endpoint, device string, err error)
	// OnConnect is told on the client that the server accepted, with the
	// server's data and device address, or why not.
	OnConnect func(ep Endpoint, privateData, remoteDeviceAddr []byte, err error)
	// OnNotify is told on the server that the client is ready.
	OnNotify func(ep Endpoint, err error)
	// OnDisconnect is told that the peer disconnected.
	OnDisconnect func(ep Endpoint)
}
