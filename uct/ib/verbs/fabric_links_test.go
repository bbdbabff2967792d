//go:build linux

package verbs_test

import (
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// withMTU makes a queue pair use a path MTU.
func withMTU(m verbs.MTU) func(*verbs.QPAttr) { return func(a *verbs.QPAttr) { a.PathMTU = m } }

// TestFabricMTU checks that packets larger than the MTU of a link are lost, and that packets of
// another size than the receiver expects are refused.
func TestFabricMTU(t *testing.T) { eachKind(t, testFabricMTU) }

func testFabricMTU(t *testing.T, kind *verbstest.MLX5) {
	port := func(mtu verbs.MTU) verbstest.Config {
		return verbstest.Config{MLX5: kind, Ports: []verbstest.Port{{MTU: uint8(mtu)}}}
	}
	ucttest.NoLeaks(t)
	r := fabricRigs(t, verbstest.NewFabric(), port(verbs.MTU2048), port(verbs.MTU1024))
	for _, c := range []struct {
		a, b   verbs.MTU
		n      int
		status verbs.WCStatus
	}{
		{verbs.MTU1024, verbs.MTU1024, 5000, verbs.WCSuccess},
		{verbs.MTU2048, verbs.MTU2048, 1024, verbs.WCSuccess},
		{verbs.MTU2048, verbs.MTU2048, 1025, verbs.WCRetryExcErr},
		{verbs.MTU256, verbs.MTU1024, 256, verbs.WCSuccess},
		{verbs.MTU256, verbs.MTU1024, 257, verbs.WCRemInvReqErr},
		{verbs.MTU1024, verbs.MTU256, 256, verbs.WCSuccess},
		{verbs.MTU1024, verbs.MTU256, 1000, verbs.WCRemInvReqErr},
	} {
		a, b := r.newSide(t, verbs.RC), r.peer.newSide(t, verbs.RC)
		a.up(t, b, impatient(1), withMTU(c.a))
		b.up(t, a, impatient(1), withMTU(c.b))
		b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, 8000)})
		a.send(t, verbs.SendWR{ID: 2, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, c.n)})
		if wc := a.poll(t, 1)[0]; wc.Status != c.status {
			t.Errorf("%v to %v, %d bytes: %v, want %v", c.a, c.b, c.n, wc.Status, c.status)
		}
		want := verbs.QPRTS
		if c.status == verbs.WCRemInvReqErr {
			want = verbs.QPErr
		}
		if s := b.state(t); s != want {
			t.Errorf("%v to %v, %d bytes: the receiver is in %v", c.a, c.b, c.n, s)
		}
	}
	a, b := ends(t, r)
	path := r.local.To(r.peer.gid)
	ah := must(a.pd.CreateAH(&path))(t)
	for n, status := range map[int]verbs.WCStatus{1024: verbs.WCSuccess, 1025: verbs.WCSuccess, 2048: verbs.WCSuccess} {
		b.recv(t, verbs.RecvWR{ID: uint64(n), SGList: b.at(0, 8000)})
		a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, n), AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey})
		if wc := a.poll(t, 1)[0]; wc.Status != status {
			t.Errorf("a datagram of %d bytes: %v", n, wc.Status)
		}
	}
	if wc := b.poll(t, 1)[0]; wc.ByteLen != 1024+verbs.GRHLength {
		t.Errorf("%+v", wc)
	}
	b.nothing(t, "what the link does not take")
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 2049), AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey})
	if wc := a.poll(t, 1)[0]; wc.Status != verbs.WCLocLenErr {
		t.Errorf("more than the own link takes: %v", wc.Status)
	}
}

// TestFabricPorts checks that the ports of devices with two ports are independent.
func TestFabricPorts(t *testing.T) { eachKind(t, testFabricPorts) }

func testFabricPorts(t *testing.T, kind *verbstest.MLX5) {
	two := verbstest.Config{MLX5: kind, Ports: make([]verbstest.Port, 2)}
	ucttest.NoLeaks(t)
	r := fabricRigs(t, verbstest.NewFabric(), two, two)
	r.by(t, 2, 1)
	r.peer.by(t, 2, 1)
	a, b := r.pair(t, verbs.RC, impatient(1))
	a.works(t, b, 1)
	u, v := ends(t, r)
	datagram(t, u, v, r.local.To(r.peer.gid), true)
	second := r.peer.gid
	datagram(t, u, v, r.local.To(r.peer.by(t, 1, 1).gid), false) // the queue pair uses the other port
	// The second link goes down at one end: queue pairs at that port get an event, the other
	// port still works.
	r.peer.kernel.SetLink(2, false)
	if e := b.event(t, verbs.EventPortErr); e.Port != 2 {
		t.Errorf("%v", e)
	}
	datagram(t, u, v, r.local.To(second), false)
	if e, ok, err := a.ctx.TryAsyncEvent(); ok || err != nil {
		t.Errorf("at the other end of the link: %v, %v", e, err)
	}
	if p, q := must(b.ctx.QueryPort(1))(t), must(b.ctx.QueryPort(2))(t); p.State != verbs.PortActive || q.State != verbs.PortDown {
		t.Errorf("%v and %v", p.State, q.State)
	}
	refused(t, "a link that is down", a, b)
	c, d := r.by(t, 1, 1).pair(t, verbs.RC)
	c.works(t, d, 2)
	r.peer.kernel.SetLink(2, true)
	datagram(t, u, v, func() verbs.AHAttr { r.by(t, 2, 1); return r.local.To(second) }(), true)
	// An address handle of one port does not work for a queue pair at the other. With mlx5 the
	// handle does not say which port it is for.
	if kind == nil {
		first := r.by(t, 1, 1).local.To(second)
		ah := must(u.pd.CreateAH(&first))(t)
		u.send(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: u.at(0, 8), AH: ah, RemoteQPN: v.qp.QPN(), RemoteQKey: qkey})
		if wc := u.poll(t, 1)[0]; wc.Status != verbs.WCLocQPOpErr {
			t.Errorf("an address handle of the other port: %v", wc.Status)
		}
	}
	_, err := u.pd.CreateAH(&verbs.AHAttr{Global: true, DGID: second, Port: 3})
	wantErr(t, err, ucs.ErrInvalidParam, "a port there is not")
}

// TestFabricInfiniBand addresses ports by LID within a subnet, and by GID between subnets.
func TestFabricInfiniBand(t *testing.T) { eachKind(t, testFabricInfiniBand) }

func testFabricInfiniBand(t *testing.T, kind *verbstest.MLX5) {
	port := func(lid uint16, gid string) verbstest.Config {
		return verbstest.Config{MLX5: kind, Ports: []verbstest.Port{{InfiniBand: true, LID: lid, LMC: 1, GIDs: gidsOf(gid)}}}
	}
	n := verbstest.NewFabric()
	ucttest.NoLeaks(t)
	r := fabricRigs(t, n, port(0x10, "fe80::1"), port(0x20, "fe80::2"))
	a, b := ends(t, r)
	b.buf[0] = 0xff
	local := verbs.AHAttr{DLID: 0x21, SL: 3, Port: 1}
	datagram(t, a, b, local, true)
	datagram(t, a, b, verbs.AHAttr{DLID: 0x22, Port: 1}, false)
	datagram(t, a, b, verbs.AHAttr{Global: true, DGID: r.peer.gid, DLID: 0x20, Port: 1}, true)
	datagram(t, a, b, verbs.AHAttr{Global: true, DGID: r.gid, DLID: 0x20, Port: 1}, false)
	ah := must(a.pd.CreateAH(&local))(t)
	b.recv(t, verbs.RecvWR{SGList: b.at(0, 100)})
	b.buf[0] = 0xff
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8), AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey})
	a.poll(t, 1)
	if wc := b.poll(t, 1)[0]; wc.SLID != 0x10 || wc.SL != 3 || wc.DLIDPathBits != 1 || b.buf[0] != 0xff {
		t.Errorf("%+v, %#x", wc, b.buf[0])
	}
	lids := func(dlid verbs.LID) func(*verbs.QPAttr) {
		return func(at *verbs.QPAttr) { at.AH = verbs.AHAttr{DLID: dlid, Port: 1} }
	}
	c, d := r.newSide(t, verbs.RC), r.peer.newSide(t, verbs.RC)
	c.up(t, d, lids(0x20))
	d.up(t, c, lids(0x10))
	c.works(t, d, 3)
	c, d = r.newSide(t, verbs.RC), r.peer.newSide(t, verbs.RC)
	c.up(t, d, lids(0x20), impatient(1))
	d.up(t, c, lids(0x30), impatient(1))
	refused(t, "back to another LID", c, d)
	// Two subnets with a router between them.
	far := fabricRigs(t, n, port(0x10, "2001:db8:0:1::1"), port(0x10, "2001:db8:0:2::1"))
	c, d = far.pair(t, verbs.RC)
	c.works(t, d, 4)
	var seen []verbs.LID
	for range 2 {
		c := kernelRig(t, n.Add(verbstest.Config{MLX5: kind, Ports: []verbstest.Port{{InfiniBand: true}, {InfiniBand: true}}})).open(t)
		for p := range 2 {
			seen = append(seen, must(c.QueryPort(p+1))(t).LID)
		}
	}
	slices.Sort(seen)
	if len(slices.Compact(seen)) != 4 || seen[0] == 0 {
		t.Errorf("LIDs %v", seen)
	}
	// An Ethernet port reaches no InfiniBand port.
	eth := kernelRig(t, n.Add(verbstest.Config{MLX5: kind, Ports: []verbstest.Port{{GIDs: gidsOf("fe80::9")}}}))
	e := eth.newSide(t, verbs.UD)
	e.up(t, nil)
	out := eth.local.To(r.peer.gid)
	out.DLID = 0x20
	datagram(t, e, b, out, false)
	// Each port has its own LID: a queue pair at the second port does not answer at the LID of
	// the first.
	two := kernelRig(t, n.Add(verbstest.Config{MLX5: kind, Ports: []verbstest.Port{{InfiniBand: true, LID: 0x40}, {InfiniBand: true, LID: 0x41}}}))
	for lid, works := range map[verbs.LID]bool{0x40: false, 0x41: true} {
		c, d = r.newSide(t, verbs.RC), two.by(t, 2, 0).newSide(t, verbs.RC)
		c.up(t, d, lids(lid), impatient(1))
		d.up(t, c, func(a *verbs.QPAttr) { a.AH = verbs.AHAttr{DLID: 0x10, Port: 2} })
		if works {
			c.works(t, d, 5)
		} else {
			refused(t, "the LID of another port", c, d)
		}
	}
}
