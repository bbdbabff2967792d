package uct

import "errors"

// Iface is one opened transport resource. It has registered itself with its worker as a
// Progressor, or is progressed by a Service of the worker. Its optional capabilities are
// NetworkIface and ProcessIface.
type Iface interface {
	// Attr describes the iface. The result does not change and must not be modified.
	Attr() *IfaceAttr

	// DeviceAddress and Address return the addresses that a peer needs to reach this iface. The
	// results must not be modified. The device address does not change. The iface address may
	// change when a transport has to rebuild its receive side, so a caller that publishes the
	// address calls Address each time. A peer's endpoint that uses the old address fails.
	DeviceAddress() []byte
	Address() []byte

	// Reachable checks, from local knowledge only, whether an endpoint to these untrusted
	// addresses can work. It returns nil, or an error that names the obstacle and matches
	// ucs.ErrUnreachable. nil does not guarantee that the peer is reachable.
	Reachable(p ReachableParams) error

	// NewEndpoint creates an endpoint. Success does not mean that the endpoint is connected:
	// OnError reports a failure to connect.
	NewEndpoint(p EndpointParams) (Endpoint, error)

	// SetAMHandler sets the handler of an id; nil removes it. Messages for an id without a
	// handler are dropped, the first with a warning.
	SetAMHandler(id AMID, h AMHandler) error

	// Close closes the iface. Its endpoints must be closed before; connections that peers
	// opened are dropped.
	Close() error
}

// ErrMismatch is wrapped in the error of Iface.Reachable if the peer would nevertheless consider
// this process reachable, so that the peer's messages would be lost, or the peer would hang. The
// error names the setting that must agree.
var ErrMismatch = errors.New("the peer's settings do not match those of this process")

// ReachableParams are the addresses of one peer.
type ReachableParams struct {
	DeviceAddr []byte
	IfaceAddr  []byte
}
