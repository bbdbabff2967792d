//go:build linux

package rc

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/kit"
)

// endpoint is a queue pair. It belongs to the goroutine of its interface's worker.
type endpoint struct {
	uct.NoAtomic // of words of 4 bytes
	uct.BasicNetworkEndpoint
	uct.BasicSource
	uct.BasicConnection
	iface    *iface
	qp       *verbs.QP // nil after it has been destroyed
	qpn      verbs.QPN
	index    int32 // index in iface.eps
	path     int
	origin   uct.Origin // origin of the addresses that the endpoint is connected with
	userData any

	room       int    // requests that may be posted; 0 until the endpoint is connected, and after a failure
	posted     uint32 // number of requests posted so far
	done       uint32 // number of those that are complete
	unsignaled uint32 // number of successive unsignaled requests, up to the last one
	fetches    uint32 // value of posted at the last read or atomic operation
	matters    uint32 // value of posted at the last request of a caller, or that a Check needs
	receives   uint32 // value of posted at the last request that takes a receive buffer of the peer
	long       spans  // long puts and gets, for which the peer is allowed more time
	fenced     bool   // the next request is the first behind a fence
	fencedPut  bool   // the next put is the first behind a fence
	stuck      bool   // a message waits for a grant
	fc         flow
	due        kit.Node[*endpoint] // node in iface.grants
	tailNode   kit.Node[*endpoint] // node in iface.tails
	draining   kit.Node[*endpoint] // node in iface.draining
	ops        opQueue
	pending    kit.Queue

	connected bool
	device    ib.Address // device address of the peer's port
	peer      epAddress
	source    uct.Source
	discards  bool // everything that arrives is discarded
	backlog   backlog
	overdue   overdue

	failed error // why nothing is accepted any more
	silent error // why nothing would arrive any more; the owner has not been notified, see lost.go
	closed bool
}

var _ interface {
	uct.Endpoint
	uct.RMA
	uct.Atomic
	uct.Paired
	uct.NetworkEndpoint
	uct.SourceOwner
	uct.Connection
	kit.Failing
	kit.Sender
} = (*endpoint)(nil)

// NewEndpoint implements uct.Iface.
func (i *iface) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	switch {
	case p.DeviceAddr != nil || p.IfaceAddr != nil || p.Over != nil:
		return nil, fmt.Errorf("rc: NewEndpoint takes no addresses, connect the endpoint to the peer's endpoint instead: %w", ucs.ErrUnsupported)
	case p.PathIndex < 0 || p.PathIndex >= i.NumPaths():
		return nil, fmt.Errorf("rc: path %d of %d: %w", p.PathIndex, i.NumPaths(), ucs.ErrInvalidParam)
	case i.closed:
		return nil, ucs.ErrCanceled
	}
	qp, err := i.freshQP()
	if err != nil {
		return nil, err
	}
	const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	if err := i.Init(qp, access, 0); err != nil {
		return nil, errors.Join(err, qp.Close())
	}
	e := &endpoint{iface: i, qp: qp, qpn: qp.QPN(), path: p.PathIndex, origin: p.Origin, userData: p.UserData}
	e.source.Owner = e
	e.index = i.index(e)
	i.byQPN.add(e.qpn, e)
	i.endpoints++
	return e, nil
}

// freshQP creates a queue pair whose number differs from those that queued completions may contain.
func (i *iface) freshQP() (qp *verbs.QP, err error) {
	var taken []*verbs.QP // kept until the end, so that the device chooses other numbers
	defer func() {
		for _, q := range taken {
			err = errors.Join(err, q.Close())
		}
	}()
	for {
		if qp, err = i.newQP(); err != nil && i.draining.Len() > 0 {
			i.endDraining(0)
			continue
		}
		if err != nil || i.byQPN.find(qp.QPN()) == nil {
			return qp, err
		}
		taken = append(taken, qp)
	}
}

// Address implements uct.Paired.
func (e *endpoint) Address() ([]byte, error) {
	a := epAddress{qpn: e.qpn}
	return a.append(nil), nil
}

// ConnectToEP implements uct.Paired. With RoCE the system may have to ask the network for the
// peer's address, and the call waits for the answer. It does not for an endpoint that a peer
// requested (uct.OriginPeer): it fails if the address is not known.
func (e *endpoint) ConnectToEP(dev, iface, ep []byte) error {
	i := e.iface
	switch {
	case e.failed != nil:
		return e.failed
	case e.connected:
		return fmt.Errorf("rc: the endpoint is connected already: %w", ucs.ErrInvalidParam)
	case len(iface) != 0:
		return fmt.Errorf("rc: interface address of %d bytes, not 0: %w", len(iface), ucs.ErrInvalidAddr)
	}
	peer, err := parseEPAddress(ep)
	if err != nil {
		return err
	}
	device, err := ib.ParseAddress(dev)
	if err != nil {
		return err
	}
	if err := i.Admits(&device, e.origin); err != nil {
		return err
	}
	path := i.PathTo(&device, e.path, ib.Seed(e.qpn, peer.qpn))
	a := i.pathAttr()
	a.AH, a.PathMTU, a.DestQPN = path.AH, path.MTU, peer.qpn
	if err := e.qp.Connect(&a); err != nil {
		i.Domain.Handles().Missed(path.AH)
		return fmt.Errorf("rc: connecting queue pair %#x with %#x at %v: %w", e.qpn, peer.qpn, &device, err)
	}
	e.connected, e.device, e.peer = true, device, peer
	e.room = i.maxWR
	e.fc.open(&i.limits)
	return nil
}

// IsConnectedTo implements uct.Paired.
func (e *endpoint) IsConnectedTo(dev, iface, ep []byte) bool {
	if !e.connected || len(iface) != 0 {
		return false
	}
	a, err := ib.ParseAddress(dev)
	if err != nil || !a.SamePort(&e.device) {
		return false
	}
	if ep == nil {
		return true
	}
	p, err := parseEPAddress(ep)
	return err == nil && p.qpn == e.peer.qpn
}

// PendingAdd implements uct.Endpoint.
func (e *endpoint) PendingAdd(p *uct.Pending) error {
	if e.ended() || e.pending.Empty() && e.Room() == kit.Open {
		return ucs.ErrBusy
	}
	e.iface.Waiting.Add(&e.pending, e, p)
	return nil
}

// PendingPurge implements uct.Endpoint.
func (e *endpoint) PendingPurge(fn func(*uct.Pending)) { e.iface.Waiting.Purge(&e.pending, fn) }
