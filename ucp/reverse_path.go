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

// Who asks from somewhere and names other places gets his answer all the same: over
// the connection on which he asks. Honest peers do that, C UCX 1.13 where the routes of
// its machine lead over another device than it listens at. Nothing is connected, and
// the endpoint is for that connection: the application does not get it, for whoever
// listens where he says may be somebody else.

// requesterEndpoint returns an endpoint toward a peer that asks, to what is believed of its
// address or, if that leads nowhere, over its connection.
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
	// The peer may write into memory that is opened to it from wherever it says that
	// it is: that is for the peer to judge. Over the way back nobody is known who could.
	where := *ep.dest
	where.reversePath = b != nil
	if !where.reversePath {
		where.scopes = w.rights.scopesOf(said)
	}
	ep.dest = &where
	return ep, nil
}

// unreachableRequester is told that there is no way to a peer that asks, which is nil for nobody
// that is known. The error drops the connection: who cannot be answered shall not wait.
func (ad *admission) unreachableRequester(from *source, p *peer, err error) error {
	w := ad.w
	const text = "no way back to a peer"
	fields := []zap.Field{zap.String("worker", w.name), zap.Error(err)}
	if errors.Is(err, uct.ErrMismatch) { // it hangs
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

// reversePath returns how to answer over the connection of a peer, and the entry of its
// address that it has named on that; nil if that is not possible.
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

// migratedPeer returns the peer that an unmatched endpoint of the application waits for, if
// it may be who asks although neither he nor the application names where he asks from.
// That can be said only of releases of C that leave it to the routes from where they
// connect, and of one such place. Both may be asking, and would wait for ever if it was
// not him: C takes a request for the answer to its own. Nothing but that endpoint's
// peer id depends on it, until the peer itself has said that (Endpoint.idConfirmed), and
// the answer goes to where the application said.
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

// unansweredEndpoint returns the endpoint of the application whose peer a request can be of that is
// not believed, if its own request may stay without a reply for that, also one that it
// has still to send: the one to send it once more for. A request can come from a
// translated address, say. If it is the peer's, both have asked, and of two workers that
// do the one with the smaller uuid does not reply: it waits for our reply, which leads to
// another endpoint, and ours would wait for ever. Its own is matched with our first
// request, so that the next one is answered like any other. Nothing of who asks is
// believed for that, and he can cause two requests, for which C UCX makes an endpoint
// that nobody uses.
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

// connectsFromListed reports whether who has published an address binds its connections
// to the devices that it names: C UCX 1.22 and later, and this library, which announces
// no release and, unlike old ones, no capabilities of domains.
func connectsFromListed(addr *proto.WorkerAddress) bool {
	if addr.Release != 0 || addr.Version != proto.AddressV1 {
		return addr.Release >= 22
	}
	return !slices.ContainsFunc(addr.Devices, func(d proto.AddressDevice) bool { return d.MDCaps != 0 })
}
