//go:build linux

package ud_test

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// scriptedPeer is a datagram queue pair on a device, which sends and answers only what the test
// wants.
type scriptedPeer struct {
	rigtest.End
	ah  *verbs.AH // address handle of the host
	dev []byte    // its own device address
}

// newScriptedPeer makes a peer on a simulated device.
func newScriptedPeer(t testing.TB, k *verbstest.Kernel, h *ucttest.Host) *scriptedPeer {
	t.Helper()
	return scriptedPeerOn(t, rigtest.Must(verbs.NewContext(k.Open(), 0))(t), h)
}

// scriptedPeerOn makes a peer on an open device, which is closed at the end of the test.
func scriptedPeerOn(t testing.TB, ctx *verbs.Context, h *ucttest.Host) *scriptedPeer {
	t.Helper()
	p := &scriptedPeer{End: rigtest.End{T: t, Host: h}}
	p.Open(ctx, verbs.UD, &verbs.QPAttr{Port: 1, QKey: qkey})
	check(t, p.QP.Connect(&verbs.QPAttr{}))
	own := rigtest.Must(ctx.DefaultGID(1))(t)
	to := rigtest.Must(ib.ParseAddress(h.Iface.DeviceAddress()))(t)
	a := own.To(to.GID)
	p.ah = rigtest.Must(p.PD.CreateAH(&a))(t)
	addr := ib.Address{Ethernet: true, GID: own.GID, Version: ib.RoCEv2, IPv6: !own.GID.Addr().Is4()}
	p.dev = addr.Append(nil)
	return p
}

const qkey = 0x1ee7a330

// send sends a packet to the host's interface, while the host progresses.
func (p *scriptedPeer) send(pkt []byte) { p.T.Helper(); p.sendWith(pkt, p.Host) }

// sendWith is like send, while the given hosts progress.
func (p *scriptedPeer) sendWith(pkt []byte, hosts ...*ucttest.Host) {
	p.T.Helper()
	wr := verbs.SendWR{Opcode: verbs.WRSend, AH: p.ah, RemoteQPN: verbs.QPN(p.target()), RemoteQKey: qkey}
	if s := p.Send(wr, pkt, hosts...); s != verbs.WCSuccess {
		p.T.Fatalf("sending: %v", s)
	}
}

// target returns the number of the host's queue pair.
func (p *scriptedPeer) target() uint32 {
	return rigtest.Must(wire.ParseIfaceAddr(p.Host.Iface.Address()))(p.T)
}

// await progresses the host until a packet arrives for which is returns true.
func (p *scriptedPeer) await(what string, is func([]byte) bool) (pkt []byte) {
	p.T.Helper()
	ucttest.Until(p.T, what, func() bool {
		for _, b := range p.Received() {
			if is(b) {
				pkt = b
				return true
			}
		}
		return false
	}, p.Host)
	return pkt
}

// creq returns a connection request of the peer.
func (p *scriptedPeer) creq(ep, sn uint32) []byte {
	return wire.AppendCREQ(nil, wire.NewHeader(wire.NullID, wire.FlagCtl, 1, 0), &wire.CREQ{QPN: p.QPN(), EP: ep, ConnSN: sn, DevAddr: p.dev})
}

// connect makes a connection, in which the next packet of the peer has number 2.
func (p *scriptedPeer) connect(ep, sn uint32) (id uint32) {
	p.T.Helper()
	p.send(p.creq(ep, sn))
	pkt := p.await("a CREP", func(b []byte) bool { return isCREP(b) && wire.Load(b).Dest() == ep })
	q := rigtest.Must(wire.ParseCREP(pkt))(p.T)
	h := wire.Load(pkt)
	if h.Dest() != ep || h.PSN() != 1 || h.Ack() != 1 || !h.AckReq() {
		p.T.Fatalf("CREP %016x", uint64(h))
	}
	p.send(packed(wire.NewHeader(q.EP, 0, 2, 1)))
	return q.EP
}

// endpoint makes an endpoint of the host to the scripted peer.
func (p *scriptedPeer) endpoint() uct.Endpoint {
	p.T.Helper()
	return p.Host.NewEndpoint(p.T, uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: wire.AppendIfaceAddr(nil, p.QPN()), UserData: p})
}

// answered makes such an endpoint and answers its CREQ. The next packets of both sides have number
// 2; id is that of the endpoint.
func (p *scriptedPeer) answered() (ep uct.Endpoint, id uint32) {
	p.T.Helper()
	ep = p.endpoint()
	q := rigtest.Must(wire.ParseCREQ(p.await("a CREQ", isCREQ)))(p.T)
	p.send(wire.AppendCREP(nil, wire.NewHeader(q.EP, wire.FlagCtl, 1, 1), &wire.CREP{EP: 77}))
	ucttest.Settle(p.Host)
	return ep, q.EP
}

func isCREP(b []byte) bool {
	h := wire.Load(b)
	return h.Kind(len(b)) == wire.KindCtl && h.Dest() != wire.NullID
}

func isCREQ(b []byte) bool { return wire.Load(b).Dest() == wire.NullID }

func packed(h wire.Header, body ...byte) []byte {
	b := make([]byte, 8, 8+len(body))
	h.Store(b)
	return append(b, body...)
}
