package uct

import "github.com/ucx-go/ucx/ucs"

// Iface is one opened transport resource.
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

	// SetAMHandler sets the handler of an id; nil removes it.
	SetAMHandler(id AMID, h AMHandler) error

	// SetAMTracer sets a function that sees every active message; nil removes it.
	SetAMTracer(t AMTracer) error

	// Flush flushes all endpoints. nil: nothing is outstanding; ucs.InProgress:
	// something is, ask again after progress. No transport takes a completion.
	Flush(flags FlushFlags) error

	// Fence orders later operations of all endpoints after earlier ones.
	Fence() error

	// Progress does what can be done now without waiting and returns the number
	// of events handled. The Worker calls it.
	Progress() int

	// Arm says whether a wait on the worker's event descriptor would be told of
	// everything that is still to come: nil, or ucs.ErrBusy when something must
	// be progressed first. Ifaces without EventFD return ucs.ErrUnsupported.
	Arm(ev EventFlags) error

	// EstimatePerf returns the performance model for one operation.
	EstimatePerf(p PerfParams) Perf

	// TagRecvZcopy and TagRecvCancel post receives to matching hardware.
	TagRecvZcopy(tag, mask uint64, iov []IOV, ctx any) error
	TagRecvCancel(ctx any, force bool) error

	// MemoryTypes are the memory the iface can send from and receive into.
	MemoryTypes() []ucs.MemoryType

	// Close closes the iface. Its endpoints must be closed; connections that
	// peers opened are dropped.
	Close() error
}

// ReachableParams asks about one peer.
type ReachableParams struct {
	DeviceAddr []byte
	IfaceAddr  []byte
	Scope      ReachScope
}

// ReachScope limits a reachability test (uct_iface_reachability_scope_t).
type ReachScope uint8

// Scopes.
const (
	ScopeNetwork ReachScope = iota // anywhere
	ScopeDevice                    // the same device
)
