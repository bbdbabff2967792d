//go:build linux

package verbs_test

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// These tests check which simulated devices reach each other, and by which addresses.

// gidsOf returns the GIDs of IP addresses.
func gidsOf(addrs ...string) (list []verbstest.GID) {
	for _, a := range addrs {
		list = append(list, verbstest.IP(a))
	}
	return list
}

// datagram sends a datagram from a to b over path. received says whether it must arrive.
func datagram(t *testing.T, a, b *side, path verbs.AHAttr, received bool) {
	t.Helper()
	const n = 500
	ah := must(a.pd.CreateAH(&path))(t)
	fill(a.buf[:n], 7)
	clear(b.buf[:n+verbs.GRHLength])
	b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, n+verbs.GRHLength)})
	a.send(t, verbs.SendWR{ID: 2, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, n), AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey})
	a.done(t, 2, verbs.WCSend)
	if !received {
		b.nothing(t, "the receiver")
		return
	}
	wc := b.done(t, 1, verbs.WCRecv)
	if wc.ByteLen != n+verbs.GRHLength || !bytes.Equal(b.buf[verbs.GRHLength:][:n], a.buf[:n]) {
		t.Errorf("%+v, or wrong bytes", wc)
	}
	if wc.Flags&verbs.WCGRH == 0 != !path.Global {
		t.Errorf("flags %v", wc.Flags)
	}
}

// ends makes two datagram queue pairs, on both devices.
func ends(t *testing.T, r *rig) (a, b *side) {
	t.Helper()
	a, b = r.newSide(t, verbs.UD), r.other().newSide(t, verbs.UD)
	a.up(t, nil)
	b.up(t, nil)
	return a, b
}

// refused checks that a send of a to b fails, and that b gets no completion.
func refused(t *testing.T, what string, a, b *side) {
	t.Helper()
	a.send(t, verbs.SendWR{ID: 3, Opcode: verbs.WRRDMAWrite, SGList: a.at(0, 8), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	if wc := a.poll(t, 1)[0]; wc.Status != verbs.WCRetryExcErr {
		t.Errorf("%s: %+v (%v)", what, wc, wc.Status)
	}
	b.nothing(t, what)
}

// eachKind runs a test on simulated devices of rdma_rxe and of mlx5_ib.
func eachKind(t *testing.T, test func(t *testing.T, kind *verbstest.MLX5)) {
	t.Run("rxe", func(t *testing.T) { test(t, nil) })
	t.Run("mlx5", func(t *testing.T) { test(t, &verbstest.MLX5{}) })
}

// TestFabricAttributes compares the attributes of ports with their configuration.
func TestFabricAttributes(t *testing.T) {
	ucttest.NoLeaks(t)
	n := verbstest.NewFabric()
	ports := []verbstest.Port{
		{GIDs: gidsOf("10.0.0.1", "2001:db8::1"), MTU: 3, Width: 2, Speed: 32, PKeys: []uint16{0xffff, 0x8001}},
		{InfiniBand: true, LID: 0x30, LMC: 2, MTU: 4, Down: true},
	}
	r := fabricRigs(t, n, verbstest.Config{Name: "mlx5_7", NodeGUID: 0x0102030405060708, Ports: ports}, verbstest.Config{})
	c := r.open(t)
	if d := must(c.QueryDevice())(t); d.Ports != 2 || d.NodeGUID != 0x0102030405060708 || d.SysImageGUID != d.NodeGUID {
		t.Errorf("%+v", d)
	}
	if a, b := r.kernel.Name(), r.peer.kernel.Name(); a != "mlx5_7" || b != "rxe1" || r.gid == r.peer.gid {
		t.Errorf("%s and %s, both at %v", a, b, r.gid)
	}
	if list := n.Devices(); len(list) != 2 || list[0] != r.kernel || list[1].Fabric() != n {
		t.Errorf("%d devices", len(list))
	}
	p := must(c.QueryPort(1))(t)
	if p.ActiveMTU != verbs.MTU1024 || p.MaxMTU != verbs.MTU4096 || p.ActiveWidth != 2 || p.ActiveSpeed != 32 || p.PKeyTableLen != 2 ||
		p.State != verbs.PortActive || p.LinkLayer != verbs.LinkEthernet {
		t.Errorf("%+v", p)
	}
	p = must(c.QueryPort(2))(t)
	if p.LID != 0x30 || p.LMC != 2 || p.LinkLayer != verbs.LinkInfiniBand || p.ActiveMTU != verbs.MTU2048 || p.State != verbs.PortDown {
		t.Errorf("%+v", p)
	}
	for _, g := range []struct {
		port, index int
		typ         verbs.GIDType
		addr        string
	}{{1, 0, verbs.GIDRoCEv2, "10.0.0.1"}, {1, 1, verbs.GIDRoCEv2, "2001:db8::1"}, {2, 0, verbs.GIDInfiniBand, "fe80::200:ff:fe00:2"}} {
		if e := must(c.QueryGID(g.port, g.index))(t); e.Type != g.typ || e.GID.Addr().String() != g.addr || e.Port != g.port {
			t.Errorf("%+v, want %+v", e, g)
		}
	}
	if table := must(c.QueryGIDTable())(t); len(table) != 3 || table[2].Port != 2 {
		t.Errorf("%+v", table)
	}
}

// TestFabricGIDs reaches a device by each kind of GID, from a GID of the same kind.
func TestFabricGIDs(t *testing.T) { eachKind(t, testFabricGIDs) }

func testFabricGIDs(t *testing.T, kind *verbstest.MLX5) {
	gids := func(host string) []verbstest.GID {
		list := gidsOf("10.0.0."+host, "2001:db8::"+host, "fe80::"+host, "10.1.0."+host)
		list[3].V1 = true
		return list
	}
	n := verbstest.NewFabric()
	ucttest.NoLeaks(t)
	r := fabricRigs(t, n, verbstest.Config{MLX5: kind, Ports: []verbstest.Port{{GIDs: gids("1")}}}, verbstest.Config{MLX5: kind, Ports: []verbstest.Port{{GIDs: gids("2")}}})
	for i := range 4 {
		a, b := ends(t, r.by(t, 1, i))
		to := r.peer.by(t, 1, i)
		datagram(t, a, b, r.local.To(to.gid), true)
		if from := b.buf[8:24]; (i == 1 || i == 2) && !bytes.Equal(from, r.gid[:]) {
			t.Errorf("from % x, not %v", from, r.gid)
		}
		a, b = r.pair(t, verbs.RC)
		a.works(t, b, byte(i))
	}
	a, b := ends(t, r)
	datagram(t, a, b, r.by(t, 1, 0).local.To(r.peer.by(t, 1, 3).gid), false) // from RoCE v2 to v1
	datagram(t, a, b, r.by(t, 1, 3).local.To(r.peer.by(t, 1, 0).gid), false)
	datagram(t, a, b, r.by(t, 1, 0).local.To(verbs.GID{15: 9}), false)
	// A GID that moves to another device is found there, with an event.
	r.by(t, 1, 0)
	away := r.local.To(r.peer.by(t, 1, 0).gid)
	datagram(t, a, b, away, true)
	r.peer.kernel.SetPortGID(1, 0, verbstest.GID{})
	if e := must(b.ctx.GetAsyncEvent(timeout(t)))(t); e.Type != verbs.EventGIDChange {
		t.Errorf("%v", e)
	}
	datagram(t, a, b, away, false)
	third := kernelRig(t, n.Add(verbstest.Config{MLX5: kind, Ports: []verbstest.Port{{GIDs: gidsOf("10.0.0.2")}}}))
	c := third.newSide(t, verbs.UD)
	c.up(t, nil)
	datagram(t, a, c, away, true)
}

// TestFabricMoves checks that an address handle and a connection follow an address from device to
// device, while links go up and down and devices are added.
func TestFabricMoves(t *testing.T) {
	n := verbstest.NewFabric()
	ucttest.NoLeaks(t)
	r := fabricRigs(t, n, verbstest.Config{}, verbstest.Config{Ports: []verbstest.Port{{GIDs: gidsOf("10.0.0.2")}}})
	a, b := r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RetryCount = 7 })
	u, v := ends(t, r)
	path := r.local.To(r.peer.gid)
	ah := must(u.pd.CreateAH(&path))(t)
	got := uint64(0)
	sent := func(what string, arrives bool) {
		t.Helper()
		v.recv(t, verbs.RecvWR{ID: got, SGList: v.at(0, 100)})
		u.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: u.at(0, 8), AH: ah, RemoteQPN: v.qp.QPN(), RemoteQKey: qkey})
		u.done(t, 0, verbs.WCSend)
		writes(t, a, b, got, 1)
		if !arrives {
			v.nothing(t, what)
			a.nothing(t, what)
			return
		}
		v.done(t, got, verbs.WCRecv)
		a.completed(t, got, 1)
		got++
	}
	k := r.peer.kernel
	sent("at first", true)
	k.SetLink(1, false)
	sent("by a link that is down", false)
	k.SetLink(1, true)
	a.completed(t, got, 1)
	got++
	v = r.peer.newSide(t, verbs.UD)
	v.up(t, nil)
	sent("by a link that is up again", true)
	k.SetPortGID(1, 0, verbstest.GID{})
	sent("to an address that is gone", false)
	k.SetPortGID(1, 0, verbstest.IP("10.0.0.2"))
	n.Progress()
	a.completed(t, got, 1)
	k.SetPortGID(1, 0, verbstest.GID{})
	// A device that is added later has the address.
	u.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: u.at(0, 8), AH: ah, RemoteQPN: v.qp.QPN(), RemoteQKey: qkey})
	u.done(t, 0, verbs.WCSend)
	third := kernelRig(t, n.Add(verbstest.Config{Ports: []verbstest.Port{{GIDs: gidsOf("10.0.0.2")}}}))
	w := third.newSide(t, verbs.UD)
	w.up(t, nil)
	w.recv(t, verbs.RecvWR{ID: 9, SGList: w.at(0, 100)})
	u.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: u.at(0, 8), AH: ah, RemoteQPN: w.qp.QPN(), RemoteQKey: qkey})
	u.done(t, 0, verbs.WCSend)
	w.done(t, 9, verbs.WCRecv)
}

// TestFabricSelf connects a queue pair to itself and makes it refuse its own request: the request
// fails once, and the others, which are also on the receiving side, are flushed.
func TestFabricSelf(t *testing.T) {
	ucttest.NoLeaks(t)
	r := kernelRig(t, verbstest.NewFabric().Add(verbstest.Config{}))
	a := r.newSide(t, verbs.RC)
	for round := range 3 {
		a.up(t, a)
		writes(t, a, a, uint64(round), 1)
		a.completed(t, uint64(round), 1)
		a.send(t, verbs.SendWR{ID: 1, Opcode: verbs.WRRDMAWrite, SGList: a.at(0, 8), RemoteAddr: a.mr.Addr(), RKey: 1},
			verbs.SendWR{ID: 2, Opcode: verbs.WRSend, SGList: a.at(0, 8)})
		for i, wc := range a.poll(t, 2) {
			if wc.ID != uint64(1+i) || wc.Status == verbs.WCSuccess {
				t.Errorf("%+v (%v)", wc, wc.Status)
			}
		}
		r.kernel.Progress()
		if a.cq.Poll(make([]verbs.WC, 1)) != 0 || a.state(t) != verbs.QPErr {
			t.Errorf("more completions, or in %v", a.qp.State())
		}
		check(t, a.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState))
	}
}

// TestFabricIslands checks that devices of different networks do not reach each other.
func TestFabricIslands(t *testing.T) {
	ucttest.NoLeaks(t)
	r := kernelRig(t, verbstest.NewFabric().Add(verbstest.Config{}))
	r.peer = kernelRig(t, verbstest.NewFabric().Add(verbstest.Config{Ports: []verbstest.Port{{GIDs: gidsOf("10.9.0.2")}}}))
	a, b := ends(t, r)
	datagram(t, a, b, r.local.To(r.peer.gid), false)
	a, b = r.pair(t, verbs.RC, impatient(1))
	refused(t, "another network", a, b)
}

// TestFabricMismatch connects queue pairs whose attributes do not match.
func TestFabricMismatch(t *testing.T) { eachKind(t, testFabricMismatch) }

func testFabricMismatch(t *testing.T, kind *verbstest.MLX5) {
	config := verbstest.Config{MLX5: kind, Ports: []verbstest.Port{{PKeys: []uint16{0xffff, 0x8001, 0x0001, 0x8002}}}}
	ucttest.NoLeaks(t)
	r := fabricRigs(t, verbstest.NewFabric(), config, config)
	for _, c := range []struct {
		what   string
		change func(*verbs.QPAttr) // to the attributes of the receiver
		works  bool
	}{
		{"as it should", func(*verbs.QPAttr) {}, true},
		{"another PSN", func(a *verbs.QPAttr) { a.RQPSN++ }, false},
		{"from another address", func(a *verbs.QPAttr) { a.AH.DGID[15]++ }, false},
		{"at another address", func(a *verbs.QPAttr) { a.AH.SGIDIndex = 0 }, false},
		{"another queue pair", func(a *verbs.QPAttr) { a.DestQPN++ }, false},
	} {
		a, b := r.newSide(t, verbs.RC), r.peer.newSide(t, verbs.RC)
		a.up(t, b, impatient(2))
		b.up(t, a, impatient(2), c.change)
		if c.works {
			a.works(t, b, 1)
		} else {
			refused(t, c.what, a, b)
		}
	}
	// Partitions: both P_Keys must be of the same partition, and one a full member.
	for i, c := range []struct {
		a, b  uint16
		works bool
	}{{1, 1, true}, {1, 2, true}, {2, 2, false}, {0, 1, false}, {1, 3, false}} {
		for _, typ := range []verbs.QPType{verbs.RC, verbs.UD} {
			a, b := r.newSide(t, typ), r.peer.newSide(t, typ)
			for s, index := range map[*side]uint16{a: c.a, b: c.b} {
				check(t, s.qp.Init(&verbs.QPAttr{Port: 1, QKey: qkey, Access: fullAccess, PKeyIndex: index}))
			}
			a.toRTS(t, b, impatient(1))
			b.toRTS(t, a, impatient(1))
			switch {
			case typ == verbs.UD:
				datagram(t, a, b, r.local.To(r.peer.gid), c.works)
			case c.works:
				a.works(t, b, byte(i))
			default:
				refused(t, "another partition", a, b)
			}
		}
	}
}
