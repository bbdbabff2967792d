//go:build linux

package rc_test

import (
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// scriptedPeer is a peer made of verbs, which does what the test wants and nothing else: a queue
// pair connected with an endpoint.
type scriptedPeer struct {
	t    testing.TB
	host *ucttest.Host // nil: nothing receives meanwhile
	net  *verbstest.Fabric
	ep   uct.Endpoint
	ctx  *verbs.Context
	ch   *verbs.CompChannel
	sent *verbs.CQ
	got  *verbs.CQ
	qp   *verbs.QP
	mem  []byte
	mr   *verbs.MR
	next uint64
}

// Receives of a scripted peer, and their size; what it sends is behind them.
const (
	scriptedPeerRecvs = 1100
	scriptedPeerSize  = 256
	scriptedPeerSend  = 16384
)

// newScriptedPeer makes a peer on the first device of a rig, connected with a new endpoint of the host.
func newScriptedPeer(t testing.TB, r *rig, h *ucttest.Host) *scriptedPeer {
	t.Helper()
	p := &scriptedPeer{t: t, host: h, net: r.net, mem: make([]byte, scriptedPeerRecvs*scriptedPeerSize+scriptedPeerSend)}
	p.ctx = must(verbs.NewContext(r.devs[0].Open(), r.devs[0].ABI()))(t)
	t.Cleanup(func() { p.ctx.Close() })
	pd := must(p.ctx.AllocPD())(t)
	p.ch = must(p.ctx.CreateCompChannel())(t)
	p.sent = must(p.ctx.CreateCQ(16, nil, 0))(t)
	p.got = must(p.ctx.CreateCQ(scriptedPeerRecvs, p.ch, 0))(t)
	p.mr = must(pd.RegMR(p.mem, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead|verbs.AccessRemoteAtomic))(t)
	p.qp = must(pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: p.sent, RecvCQ: p.got,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: scriptedPeerRecvs, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64}}))(t)
	const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	check(t, p.qp.Init(&verbs.QPAttr{Port: 1, Access: access}))
	for k := range scriptedPeerRecvs {
		p.post(k)
	}
	p.ep = h.NewEndpoint(t, uct.EndpointParams{UserData: p})
	addr := must(p.ep.(uct.Paired).Address())(t)
	gid := must(p.ctx.DefaultGID(1))(t)
	check(t, p.qp.Connect(&verbs.QPAttr{
		AH: gid.To(gid.GID), DestQPN: verbs.QPN(binary.LittleEndian.Uint32(addr) >> 8), PathMTU: verbs.MTU4096,
		MaxRdAtomic: 16, MaxDestRdAtomic: 16, MinRNRTimer: 13, Timeout: 18, RetryCount: 6, RNRRetry: 7,
	}))
	n := uint32(p.qp.QPN())
	check(t, p.ep.(uct.Paired).ConnectToEP(h.Iface.DeviceAddress(), nil, []byte{0, byte(n), byte(n >> 8), byte(n >> 16)}))
	return p
}

// post posts a receive.
func (p *scriptedPeer) post(k int) {
	p.t.Helper()
	_, err := p.qp.PostRecv([]verbs.RecvWR{{ID: uint64(k), SGList: []verbs.SGE{p.mr.SGE(k*scriptedPeerSize, scriptedPeerSize)}}})
	check(p.t, err)
}

// send sends a message and waits until the device has done it; it returns how that ended.
func (p *scriptedPeer) send(msg []byte) verbs.WCStatus {
	p.t.Helper()
	copy(p.mem[scriptedPeerRecvs*scriptedPeerSize:], msg)
	wr := verbs.SendWR{ID: p.next, Opcode: verbs.WRSend, Flags: verbs.SendSignaled}
	if len(msg) > 0 {
		wr.SGList = []verbs.SGE{p.mr.SGE(scriptedPeerRecvs*scriptedPeerSize, len(msg))}
	}
	p.next++
	_, err := p.qp.PostSend([]verbs.SendWR{wr})
	check(p.t, err)
	var wc [1]verbs.WC
	over := func() bool { return p.sent.Poll(wc[:]) == 1 }
	if p.host == nil { // which would have the network go on
		p.net.Progress()
		if !over() {
			p.t.Fatal("a message is still under way")
		}
		return wc[0].Status
	}
	ucttest.Until(p.t, "the end of a message", over, p.host)
	return wc[0].Status
}

// tell is send that must go well.
func (p *scriptedPeer) tell(msg ...byte) {
	p.t.Helper()
	if s := p.send(msg); s != verbs.WCSuccess {
		p.t.Fatalf("sending %x: %v", msg, s)
	}
}

// heard are the messages that have come, in their order.
func (p *scriptedPeer) heard() (list [][]byte) {
	p.t.Helper()
	var wc [16]verbs.WC
	for {
		n := p.got.Poll(wc[:])
		for _, c := range wc[:n] {
			if c.Status == verbs.WCWRFlushErr {
				continue
			}
			if c.Status != verbs.WCSuccess {
				p.t.Fatalf("receiving: %v", c.Status)
			}
			k := int(c.ID)
			list = append(list, append([]byte(nil), p.mem[k*scriptedPeerSize:][:min(int(c.ByteLen), scriptedPeerSize)]...))
			p.post(k)
		}
		if n == 0 {
			return list
		}
	}
}

// must returns what a call returned that must succeed.
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
