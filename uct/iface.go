package uct

import "errors"

// Iface is one opened transport resource. It has registered itself with its worker as a
// Progressor, and as an Armer if it takes part in waiting.
//
// An Iface whose peers are processes of this machine is also a ProcessFinder.
type Iface interface {
	// Attr describes the iface. The result does not change and must not be modified.
	Attr() *IfaceAttr

	// DeviceAddress and Address return what a peer needs to reach this iface. They must not
	// be modified. The device address does not change. The iface address may change when a
	// transport had to rebuild its receive side, so a caller that publishes it reads it
	// each time. An endpoint of a peer that has the old address fails.
	DeviceAddress() []byte
	Address() []byte

	// Reachable checks, from local knowledge only, whether an endpoint to these untrusted
	// addresses can work. It returns nil, or an error that names the obstacle and matches
	// ucs.ErrUnreachable. nil is no guarantee.
	Reachable(p ReachableParams) error

	// NewEndpoint creates an endpoint. Success does not mean connected: a
	// failure to connect arrives at OnError.
	NewEndpoint(p EndpointParams) (Endpoint, error)

	// SetAMHandler sets the handler of an id; nil removes it. Messages for an id without a
	// handler are dropped, the first with a warning.
	SetAMHandler(id AMID, h AMHandler) error

	// Close closes the iface. Its endpoints must be closed; connections that
	// peers opened are dropped.
	Close() error
}

// Failer is an Iface that can fail as a whole, for example when its device is removed. Its
// endpoints then fail as if their peers had gone. Nothing can be reached through it any
// more, and its addresses need not be published.
type Failer interface {
	// Failed returns the reason why the iface can no longer send or receive, nil while it
	// can. A failed iface stays failed.
	Failed() error
}

// DualStack is an Iface of a device that may have an address of a second family.
// NewEndpoint makes endpoints to peers that have only that family as usual; these are
// Multihomed.
type DualStack interface {
	// SecondReachable is Reachable for the second address. Without a second address it
	// always fails.
	SecondReachable(p ReachableParams) error

	// SecondAddress returns what peers of the second family need to reach the interface,
	// for packed addresses. ok is false if there is no second address, or it is not to be
	// published.
	SecondAddress() (p ReachableParams, ok bool, err error)
}

// ErrMismatch is in the error of Iface.Reachable if the peer would nevertheless consider
// this process reachable: what it sends is lost, or it hangs. The error names the setting
// that must agree.
var ErrMismatch = errors.New("settings of the peers do not match")

// ReachableParams are the addresses of one peer.
type ReachableParams struct {
	DeviceAddr []byte
	IfaceAddr  []byte
}
