//go:build linux

package ud_test

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// scriptedPeer is a datagram queue pair on a device, which sends and answers what the test
// wants and nothing else.
type scriptedPeer struct {
	t    testing.TB
	host *ucttest.Host
	ctx  *verbs.Context
	pd   *verbs.PD
	wake *verbs.CompChannel // of what it receives
	sent *verbs.CQ
	got  *verbs.CQ
	qp   *verbs.QP
	ah   *verbs.AH // to the host
	dev  []byte    // its device address
	mem  []byte
	mr   *verbs.MR
}

// Receives of a scripted peer, and their size; what it sends is behind them.
const (
	scriptedPeerRecvs = 512
	scriptedPeerSize  = 256
	scriptedPeerSend  = 8192
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newScriptedPeer makes one on a device without a kernel.
func newScriptedPeer(t testing.TB, k *verbstest.Kernel, h *ucttest.Host) *scriptedPeer {
	t.Helper()
	return scriptedPeerOn(t, must(verbs.NewContext(k.Open(), 0))(t), h)
}

// scriptedPeerOn makes one on an open device, and closes that.
func scriptedPeerOn(t testing.TB, ctx *verbs.Context, h *ucttest.Host) *scriptedPeer {
	t.Helper()
	p := &scriptedPeer{t: t, host: h, mem: make([]byte, scriptedPeerRecvs*scriptedPeerSize+scriptedPeerSend), ctx: ctx}
	t.Cleanup(func() { p.ctx.Close() })
	p.pd = must(p.ctx.AllocPD())(t)
	p.sent = must(p.ctx.CreateCQ(16, nil, 0))(t)
	p.wake = must(p.ctx.CreateCompChannel())(t)
	p.got = must(p.ctx.CreateCQ(scriptedPeerRecvs, p.wake, 0))(t)
	p.mr = must(p.pd.RegMR(p.mem, verbs.AccessLocalWrite))(t)
	p.qp = must(p.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.UD, SendCQ: p.sent, RecvCQ: p.got,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: scriptedPeerRecvs, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
	check(t, p.qp.Init(&verbs.QPAttr{Port: 1, QKey: 0x1ee7a330}))
	for n := range scriptedPeerRecvs {
		p.post(n)
	}
	check(t, p.qp.Connect(&verbs.QPAttr{}))
	own := must(p.ctx.DefaultGID(1))(t)
	to := must(ib.ParseAddress(h.Iface.DeviceAddress()))(t)
	a := own.To(to.GID)
	p.ah = must(p.pd.CreateAH(&a))(t)
	addr := ib.Address{Ethernet: true, GID: own.GID, Version: ib.RoCEv2, IPv6: !own.GID.Addr().Is4()}
	p.dev = addr.Append(nil)
	return p
}

func (p *scriptedPeer) qpn() uint32 { return uint32(p.qp.QPN()) }

// post posts a receive.
func (p *scriptedPeer) post(n int) {
	p.t.Helper()
	_, err := p.qp.PostRecv([]verbs.RecvWR{{ID: uint64(n), SGList: []verbs.SGE{p.mr.SGE(n*scriptedPeerSize, scriptedPeerSize)}}})
	check(p.t, err)
}

// send sends a packet to the host's interface, which progresses meanwhile.
func (p *scriptedPeer) send(pkt []byte) { p.t.Helper(); p.sendWith(pkt, p.host) }

// sendWith is send with those who progress.
func (p *scriptedPeer) sendWith(pkt []byte, hosts ...*ucttest.Host) {
	p.t.Helper()
	copy(p.mem[scriptedPeerRecvs*scriptedPeerSize:], pkt)
	wr := verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, AH: p.ah, RemoteQPN: verbs.QPN(p.target()), RemoteQKey: 0x1ee7a330}
	if len(pkt) > 0 {
		wr.SGList = []verbs.SGE{p.mr.SGE(scriptedPeerRecvs*scriptedPeerSize, len(pkt))}
	}
	_, err := p.qp.PostSend([]verbs.SendWR{wr})
	check(p.t, err)
	var wc [1]verbs.WC
	ucttest.Until(p.t, "the end of a packet", func() bool { return p.sent.Poll(wc[:]) == 1 }, hosts...)
	if wc[0].Status != verbs.WCSuccess {
		p.t.Fatalf("sending: %v", wc[0].Status)
	}
}

// target is the host's queue pair.
func (p *scriptedPeer) target() uint32 { return must(wire.ParseIfaceAddr(p.host.Iface.Address()))(p.t) }

// heard are the packets that have come, in their order.
func (p *scriptedPeer) heard() (list [][]byte) {
	p.t.Helper()
	var wc [16]verbs.WC
	for {
		n := p.got.Poll(wc[:])
		for _, c := range wc[:n] {
			if c.Status != verbs.WCSuccess {
				p.t.Fatalf("receiving: %v", c.Status)
			}
			k := int(c.ID)
			list = append(list, bytes.Clone(p.mem[k*scriptedPeerSize:][40:c.ByteLen]))
			p.post(k)
		}
		if n == 0 {
			return list
		}
	}
}

// await progresses the host until a packet of a kind comes.
func (p *scriptedPeer) await(what string, is func([]byte) bool) (pkt []byte) {
	p.t.Helper()
	ucttest.Until(p.t, what, func() bool {
		for _, b := range p.heard() {
			if is(b) {
				pkt = b
				return true
			}
		}
		return false
	}, p.host)
	return pkt
}

// creq is a connection request of its own.
func (p *scriptedPeer) creq(ep, sn uint32) []byte {
	return wire.AppendCREQ(nil, wire.NewHeader(wire.NullID, wire.FlagCtl, 1, 0), &wire.CREQ{QPN: p.qpn(), EP: ep, ConnSN: sn, DevAddr: p.dev})
}

// connect makes a connection, in which the scripted peer's packets begin with number 2.
func (p *scriptedPeer) connect(ep, sn uint32) (id uint32) {
	p.t.Helper()
	p.send(p.creq(ep, sn))
	pkt := p.await("a CREP", func(b []byte) bool { return isCREP(b) && wire.Load(b).Dest() == ep })
	q := must(wire.ParseCREP(pkt))(p.t)
	h := wire.Load(pkt)
	if h.Dest() != ep || h.PSN() != 1 || h.Ack() != 1 || !h.AckReq() {
		p.t.Fatalf("CREP %016x", uint64(h))
	}
	p.send(packed(wire.NewHeader(q.EP, 0, 2, 1)))
	return q.EP
}

// endpoint makes an endpoint of the host to the scripted peer.
func (p *scriptedPeer) endpoint() uct.Endpoint {
	p.t.Helper()
	return p.host.NewEndpoint(p.t, uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: wire.AppendIfaceAddr(nil, p.qpn()), UserData: p})
}

// answered makes one whose CREQ the scripted peer answers, after which packets begin with number 2 on
// both sides; id is that of the endpoint.
func (p *scriptedPeer) answered() (ep uct.Endpoint, id uint32) {
	p.t.Helper()
	ep = p.endpoint()
	q := must(wire.ParseCREQ(p.await("a CREQ", isCREQ)))(p.t)
	p.send(wire.AppendCREP(nil, wire.NewHeader(q.EP, wire.FlagCtl, 1, 1), &wire.CREP{EP: 77}))
	ucttest.Settle(p.host)
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
