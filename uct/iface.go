package uct

import "errors"

// Iface is one opened transport resource. It has registered itself with its worker
// as a Progressor, and as an Armer where it takes part in waiting.
//
// An Iface whose peers are processes of this machine is a ProcessFinder as well.
type Iface interface {
	// Attr describes the iface. The result does not change and is not to be
	// modified.
	Attr() *IfaceAttr

	// DeviceAddress and Address are what a peer needs to reach this iface. They
	// are not to be modified. The device address does not change; the other one
	// may when a transport had to rebuild its receive side, so whoever publishes
	// it asks each time. A peer that has the old one finds its endpoint failed.
	DeviceAddress() []byte
	Address() []byte

	// Reachable says, from local knowledge only, whether an endpoint to these
	// untrusted addresses can work: nil, or an error that names the obstacle and
	// matches ucs.ErrUnreachable. nil is not a promise.
	Reachable(p ReachableParams) error

	// NewEndpoint creates an endpoint. Success does not mean connected: a
	// failure to connect arrives at OnError.
	NewEndpoint(p EndpointParams) (Endpoint, error)

	// SetAMHandler sets the handler of an id; nil removes it. Messages whose id has
	// none are dropped, the first with a warning.
	SetAMHandler(id AMID, h AMHandler) error

	// Close closes the iface. Its endpoints must be closed; connections that
	// peers opened are dropped.
	Close() error
}

// Failer is an Iface that can come to an end by itself, as when its device is removed. Its
// endpoints fail then, as they do when their peers go; nothing is reachable from there any
// more, and peers need not be told its addresses.
type Failer interface {
	// Failed is why nothing can be sent or received any more, nil while it can. What has
	// failed stays so.
	Failed() error
}

// DualStack is an Iface of a device that may have an address of a second family. Endpoints
// toward peers that have only that family are made by NewEndpoint like all others, and are
// Multihomed.
type DualStack interface {
	// SecondReachable is Reachable by the second address. Where there is none nothing is.
	SecondReachable(p ReachableParams) error

	// SecondAddress is what peers of the second family need to reach the interface, for
	// addresses that list it. ok is false if there is none, or it is not to be listed.
	SecondAddress() (p ReachableParams, ok bool, err error)
}

// ErrMismatch is in the error of Iface.Reachable if the peer takes this process to be reachable
// all the same: what it sends there is lost, or it hangs. It says which setting must agree.
var ErrMismatch = errors.New("settings of the peers do not match")

// ReachableParams asks about one peer.
type ReachableParams struct {
	DeviceAddr []byte
	IfaceAddr  []byte
}
