package ucp

import (
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// A peer whose connection comes from an address that is not in its worker address still gets a
// reply, on that connection (the reverse path). Honest peers do that: C UCX 1.13 does when the
// routes of its machine lead over another device than the one that it listens at. Nothing is
// connected, and the endpoint serves only that connection: the application does not get the
// endpoint, because the listener at the claimed address may be another process.

// requesterEndpoint returns an endpoint toward a requester. The endpoint leads to the verified
// part of the requester's address, addr, or over the requester's connection if addr leads
// nowhere. said is the claimed address, nil if all of it is verified.
func (ad *admission) requesterEndpoint(from *source, addr, said *proto.WorkerAddress, mode ErrMode, rules laneRules) (*Endpoint, error) {
	w := ad.w
	rules.origin = from.origin()
	ep, err := w.wireups.newEndpointBy(addr, mode, 0, rules)
	if said == nil {
		return ep, err
	}
	b, only := (*reversePath)(nil), (*proto.WorkerAddress)(nil)
	if err != nil {
		if b, only = ad.reversePath(from, said); b != nil {
			ep, err = w.wireups.newEndpointBy(only, mode, 0, laneRules{back: b})
		}
		if err != nil {
			return nil, err
		}
	}
	// The peer may write into memory that is opened to it from any address that it claims: the
	// peer decides that. Over a reverse path no peer is known that could write.
	where := *ep.dest
	where.reversePath = b != nil
	if !where.reversePath {
		where.scopes = w.rights.scopesOf(said)
	}
	ep.dest = &where
	return ep, nil
}

// unreachableRequester handles that no endpoint toward a requester could be made; p is nil if the
// requester is not a known peer. The error drops the connection, so that the requester does not
// wait.
func (ad *admission) unreachableRequester(from *source, p *peer, err error) error {
	w := ad.w
	const text = "no way back to a peer"
	fields := []zap.Field{zap.String("worker", w.name), zap.Error(err)}
	if errors.Is(err, uct.ErrMismatch) { // the peer hangs
		if !ad.mismatchTold {
			ad.mismatchTold = true
			w.ctx.log.Error(text, fields...)
		}
	} else if ad.unreachableTold { // peers can ask any number of times
		w.ctx.log.Debug(text, fields...)
	} else {
		w.ctx.log.WarnOnce("", text, fields...)
	}
	ad.unreachableTold = true
	if from.locator() == nil || p != nil && p.trusted() {
		return nil
	}
	w.refused(from, ledger.Claim)
	return fmt.Errorf("ucp: %w: no reverse path to the peer: %v", ucs.ErrUnreachable, err)
}

// reversePath returns how to answer over the connection of a peer, and the entry of the peer's
// address that belongs to the connection; nil if that is not possible.
func (ad *admission) reversePath(from *source, said *proto.WorkerAddress) (b *reversePath, only *proto.WorkerAddress) {
	w := ad.w
	if from.uct == nil {
		return nil, nil
	}
	said.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		for _, i := range w.ifaces {
			r, ok := i.uct.(uct.ReturnIface)
			if !ok || i.id != f.Transport || !r.CanReturn(from.uct, uct.ReachableParams{DeviceAddr: dev.Addr, IfaceAddr: f.Addr}) {
				continue
			}
			b = &reversePath{iface: i, src: from.uct}
			only = &proto.WorkerAddress{Version: said.Version, Flags: said.Flags, UUID: said.UUID, Name: said.Name,
				Release: said.Release, Devices: []proto.AddressDevice{*dev}}
			only.Devices[0].Ifaces = []proto.AddressIface{*f}
			return false
		}
		return true
	})
	return b, only
}

// migratedPeer returns the peer that an unmatched endpoint of the application waits for, if the
// requester may be that peer although neither the requester nor the application names the address
// that the requester asks from; nil otherwise. That is possible only for releases of C UCX that
// leave it to the routes from which address they connect, and for one such address of each peer.
// Both sides may be asking, and would wait forever if the request was not taken for the peer's: C
// UCX takes a request for the answer to its own. Only the peer id of that endpoint depends on the
// guess, until the peer itself has confirmed the id (wireupState.idConfirmed), and the answer
// goes to the address that the application gave.
func (ad *admission) migratedPeer(from *source, said *proto.WorkerAddress, m *proto.Wireup) *peer {
	w := ad.w
	l := from.locator()
	if said == nil || l == nil || w.ctx.settings.CheckSource != config.Try {
		return nil
	}
	p := w.peers.findPeer(said.UUID, entriesOf(said))
	if p == nil || !p.trusted() || connectsFromListed(p.address) {
		return nil
	}
	ep := p.unmatched[m.ConnSN]
	if ep == nil || !ep.life.Mine() || ep.remoteID != 0 || ep.errMode != ErrMode(m.ErrMode) {
		return nil
	}
	ip := l.SourceInfo().Addr.Addr().Unmap()
	also := p.ensureExtra()
	if !also.migratedAddr.IsValid() {
		also.migratedAddr = ip
	}
	if also.migratedAddr != ip {
		return nil
	}
	return p
}

// unansweredEndpoint returns the endpoint of the application for which the worker should send its
// wireup request once more, after a request that is not verified to come from the endpoint's
// peer; nil if there is none. The endpoint's own request, sent or still to be sent, may stay
// without a reply. A request can come from a translated address, say. If the request is the
// peer's, both sides have asked, and of two workers that do the one with the smaller uuid does
// not reply. It waits for this worker's reply, which leads to another endpoint, and the endpoint
// here would wait forever. The peer's own endpoint is matched with the first request from here,
// so that the next request is answered like any other. Nothing that the requester claims is
// believed for that. A false requester can cause two requests, for which C UCX makes an endpoint
// that nothing uses.
func (ad *admission) unansweredEndpoint(said *proto.WorkerAddress, m *proto.Wireup) *Endpoint {
	w := ad.w
	if said == nil || said.UUID >= w.uuid {
		return nil
	}
	p := w.peers.findPeer(said.UUID, entriesOf(said))
	if p == nil || !p.trusted() {
		return nil
	}
	ep := p.unmatched[m.ConnSN]
	if ep == nil || ep.life.Stage != life.Open || ep.state&epResentTwice != 0 {
		return nil
	}
	if ep.remoteID != 0 && (ep.state&epUnconfirmed == 0 || ep.remoteID == m.SrcEp) {
		return nil
	}
	return ep
}

// connectsFromListed reports whether the worker that published an address binds its connections
// to the devices in the address. C UCX 1.22 and later does. So does this library, which announces
// no release and, unlike old releases of C UCX, no capabilities of memory domains.
func connectsFromListed(addr *proto.WorkerAddress) bool {
	if addr.Release != 0 || addr.Version != proto.AddressV1 {
		return addr.Release >= 22
	}
	return !slices.ContainsFunc(addr.Devices, func(d proto.AddressDevice) bool { return d.MDCaps != 0 })
}
