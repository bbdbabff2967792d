//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// suite is what every device must do, simulated or not.
var suite = []struct {
	name string
	test func(*testing.T, *rig)
}{
	{"Query", testQuery},
	{"SendRecv", testSendRecv},
	{"RDMA", testRDMA},
	{"Atomics", testAtomics},
	{"Contention", testContention},
	{"Fence", testFence},
	{"GIDs", testGIDs},
	{"Windows", testWindows},
	{"Sizes", testSizes},
	{"Datagrams", testDatagrams},
	{"Inline", testInline},
	{"InlineSizes", testInlineSizes},
	{"Gather", testGather},
	{"GatherMost", testGatherMost},
	{"Batch", testBatch},
	{"Post", testPost},
	{"PostMistakes", testPostMistakes},
	{"PostForgets", testPostForgets},
	{"UC", testUC},
	{"UD", testUD},
	{"Multicast", testMulticast},
	{"SRQ", testSRQ},
	{"SRQOpcodes", testSRQOpcodes},
	{"SRQResize", testSRQResize},
	{"Rereg", testRereg},
	{"DMABuf", testDMABuf},
	{"Arena", testArena},
	{"Wait", testWait},
	{"SharedChannel", testSharedChannel},
	{"Try", testTry},
	{"ArmRace", testArmRace},
	{"Flood", testFlood},
	{"Waiters", testWaiters},
	{"CloseWaiting", testCloseWaiting},
	{"StaleEvent", testStaleEvent},
	{"Resize", testResize},
	{"ResizeLoad", testResizeLoad},
	{"Overrun", testOverrun},
	{"Modify", testModify},
	{"Connect", testConnect},
	{"Drain", testDrain},
	{"Reset", testReset},
	{"RemoteAccess", testRemoteAccess},
	{"LocalErrors", testLocalErrors},
	{"TooLong", testTooLong},
	{"RNR", testRNR},
	{"Retry", testRetry},
	{"PeerGone", testPeerGone},
	{"UDLost", testUDLost},
	{"Flush", testFlush},
	{"Closed", testClosed},
	{"Unread", testUnread},
	{"ClosedAtOnce", testClosedAtOnce},
	{"ClosedBesideContext", testClosedBesideContext},
	{"Foreign", testForeign},
	{"Order", testOrder},
	{"AnyOrder", testAnyOrder},
	{"ManyQPs", testManyQPs},
	{"Allocations", testAllocations},
	{"Collector", testCollector},
}

func TestFake(t *testing.T) {
	for _, s := range suite {
		t.Run(s.name, func(t *testing.T) { s.test(t, fakeRig(t)) })
	}
}

// TestFabric runs the suite with the peer of each pair on another device.
func TestFabric(t *testing.T) {
	for _, s := range suite {
		if race.Enabled && s.name == "Sizes" {
			continue // it moves much memory; TestFake runs it under the race detector
		}
		t.Run(s.name, func(t *testing.T) { s.test(t, fabricRig(t)) })
	}
}

func testQuery(t *testing.T, r *rig) {
	c := r.open(t)
	a := must(c.QueryDevice())(t)
	if a.MaxQP < 2 || a.MaxQPWR < 64 || a.MaxSGE < 4 || a.MaxCQE < 256 || a.MaxMR < 2 || a.Ports < 1 || a.AtomicCap == 0 {
		t.Errorf("the device: %+v", a)
	}
	if c.NumCompVectors() < 1 {
		t.Errorf("%d completion vectors", c.NumCompVectors())
	}
	p := must(c.QueryPort(1))(t)
	if p.State != verbs.PortActive || p.ActiveMTU.Bytes() < 1024 || p.LinkLayer == 0 || p.MaxMsgSize < 1<<20 || p.GIDTableLen < 2 {
		t.Errorf("the port: %+v", p)
	}
	_, err := c.QueryPort(a.Ports + 1)
	wantErr(t, err, ucs.ErrInvalidParam, "a port there is not")
	for _, g := range must(c.QueryGIDTable())(t) {
		one, err := c.QueryGID(g.Port, g.Index)
		if err != nil || one != g || g.GID.IsZero() {
			t.Errorf("%+v in the table, %+v alone: %v", g, one, err)
		}
	}
	_, err = c.QueryGID(1, p.GIDTableLen-1)
	wantErr(t, err, ucs.ErrNoElem, "an empty GID")
}

// at returns a scatter/gather list of a part of s's memory.
func (s *side) at(off, n int) []verbs.SGE { return []verbs.SGE{s.mr.SGE(off, n)} }

func testSendRecv(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	fill(a.buf, 1)
	for i, c := range []struct {
		wr    verbs.SendWR
		flags verbs.WCFlags
	}{
		{wr: verbs.SendWR{Opcode: verbs.WRSend}},
		{wr: verbs.SendWR{Opcode: verbs.WRSendWithImm, Imm: 0x01020304}, flags: verbs.WCWithImm},
		{wr: verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSolicited | verbs.SendFence}},
	} {
		off := 1000 * (i + 1)
		b.recv(t, verbs.RecvWR{ID: uint64(100 + i), SGList: b.at(off, 1000)})
		c.wr.ID, c.wr.SGList = uint64(i), a.at(off, 700)
		c.wr.Flags |= verbs.SendSignaled
		a.send(t, c.wr)
		a.done(t, uint64(i), verbs.WCSend)
		wc := b.done(t, uint64(100+i), verbs.WCRecv)
		if wc.ByteLen != 700 || wc.Imm != c.wr.Imm || wc.Flags&verbs.WCWithImm != c.flags {
			t.Errorf("%v: %+v", c.wr.Opcode, wc)
		}
		if !bytes.Equal(b.buf[off:off+700], a.buf[off:off+700]) || b.buf[off+700] != 0 {
			t.Errorf("%v: wrong bytes", c.wr.Opcode)
		}
	}
	// An empty message is a message, too.
	b.recv(t, verbs.RecvWR{ID: 7})
	a.send(t, verbs.SendWR{ID: 8, Opcode: verbs.WRSend, Flags: verbs.SendSignaled})
	a.done(t, 8, verbs.WCSend)
	if wc := b.done(t, 7, verbs.WCRecv); wc.ByteLen != 0 {
		t.Errorf("an empty message: %+v", wc)
	}
}

func testRDMA(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	fill(a.buf[:4096], 3)
	remote := func(op verbs.WROpcode, off int) verbs.SendWR {
		return verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, RemoteAddr: b.mr.Addr() + uint64(off), RKey: b.mr.RKey()}
	}
	w := remote(verbs.WRRDMAWrite, 5000)
	w.SGList = a.at(0, 4096)
	a.send(t, w)
	a.done(t, 0, verbs.WCRDMAWrite)
	if !bytes.Equal(b.buf[5000:9096], a.buf[:4096]) || b.buf[4999] != 0 || b.buf[9096] != 0 {
		t.Error("write: wrong bytes")
	}
	w = remote(verbs.WRRDMAWriteWithImm, 20000)
	w.SGList, w.Imm = a.at(100, 50), 77
	b.recv(t, verbs.RecvWR{ID: 9})
	a.send(t, w)
	a.done(t, 0, verbs.WCRDMAWrite)
	if wc := b.done(t, 9, verbs.WCRecvRDMAWithImm); wc.Imm != 77 || wc.ByteLen != 50 || wc.Flags&verbs.WCWithImm == 0 {
		t.Errorf("write with immediate: %+v", wc)
	}
	if !bytes.Equal(b.buf[20000:20050], a.buf[100:150]) {
		t.Error("write with immediate: wrong bytes")
	}
	fill(b.buf[30000:40000], 9)
	w = remote(verbs.WRRDMARead, 30000)
	w.ID, w.SGList = 4, a.at(40000, 10000)
	a.send(t, w)
	a.done(t, 4, verbs.WCRDMARead)
	if !bytes.Equal(a.buf[40000:50000], b.buf[30000:40000]) {
		t.Error("read: wrong bytes")
	}
}

func testAtomics(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	word := b.buf[64:72]
	binary.NativeEndian.PutUint64(word, 100)
	for i, c := range []struct {
		op         verbs.WROpcode
		done       verbs.WCOpcode
		value, new uint64
		old, want  uint64
	}{
		{verbs.WRAtomicFetchAndAdd, verbs.WCFetchAdd, 5, 0, 100, 105},
		{verbs.WRAtomicFetchAndAdd, verbs.WCFetchAdd, ^uint64(0), 0, 105, 104},
		{verbs.WRAtomicCmpAndSwp, verbs.WCCompSwap, 104, 9, 104, 9},
		{verbs.WRAtomicCmpAndSwp, verbs.WCCompSwap, 104, 10, 9, 9},
	} {
		a.send(t, verbs.SendWR{ID: uint64(i), Opcode: c.op, Flags: verbs.SendSignaled, SGList: a.at(8*i, 8),
			RemoteAddr: b.mr.Addr() + 64, RKey: b.mr.RKey(), CompareAdd: c.value, Swap: c.new})
		a.done(t, uint64(i), c.done)
		old, now := binary.NativeEndian.Uint64(a.buf[8*i:]), binary.NativeEndian.Uint64(word)
		if old != c.old || now != c.want {
			t.Errorf("%v of %d, %d: %d was there and %d is, want %d and %d", c.op, c.value, c.new, old, now, c.old, c.want)
		}
	}
	_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRAtomicFetchAndAdd, SGList: a.at(0, 8), RemoteAddr: b.mr.Addr() + 65, RKey: b.mr.RKey()}})
	wantErr(t, err, ucs.ErrInvalidParam, "an odd address")
	_, err = a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRAtomicFetchAndAdd, SGList: a.at(0, 4), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}})
	wantErr(t, err, ucs.ErrInvalidParam, "4 bytes")
}

func testInline(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	most := a.qp.Cap().MaxInline
	if most < 128 {
		t.Fatalf("%d bytes inline", most)
	}
	data := make([]byte, most)
	fill(data, 5)
	want := bytes.Clone(data)
	b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, 4096)})
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: [][]byte{data[:10], nil, data[10:]}})
	clear(data) // it belongs to the caller again
	a.done(t, 0, verbs.WCSend)
	if wc := b.done(t, 1, verbs.WCRecv); int(wc.ByteLen) != most || !bytes.Equal(b.buf[:most], want) {
		t.Errorf("%d of %d bytes, or wrong ones", wc.ByteLen, most)
	}
	a.send(t, verbs.SendWR{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendInline | verbs.SendSignaled, Inline: [][]byte{want[:3]},
		RemoteAddr: b.mr.Addr() + 9000, RKey: b.mr.RKey()})
	a.done(t, 0, verbs.WCRDMAWrite)
	if !bytes.Equal(b.buf[9000:9004], append(bytes.Clone(want[:3]), 0)) {
		t.Errorf("inline write: % x", b.buf[9000:9004])
	}
	_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRSend, Flags: verbs.SendInline, Inline: [][]byte{make([]byte, most), {1}}}})
	wantErr(t, err, ucs.ErrExceedsLimit, "too much inline")
	_, err = a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRRDMARead, Flags: verbs.SendInline, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}})
	wantErr(t, err, ucs.ErrInvalidParam, "an inline read")
}

func testGather(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	fill(a.buf, 7)
	b.recv(t, verbs.RecvWR{SGList: []verbs.SGE{b.mr.SGE(0, 10), b.mr.SGE(100, 5000), b.mr.SGE(6000, 1000)}})
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled,
		SGList: []verbs.SGE{a.mr.SGE(500, 1), a.mr.SGE(0, 0), a.mr.SGE(1000, 5500), a.mr.SGE(9000, 99)}})
	a.done(t, 0, verbs.WCSend)
	if wc := b.done(t, 0, verbs.WCRecv); wc.ByteLen != 5600 {
		t.Errorf("%d bytes", wc.ByteLen)
	}
	want := append(append(bytes.Clone(a.buf[500:501]), a.buf[1000:6500]...), a.buf[9000:9099]...)
	got := append(append(bytes.Clone(b.buf[:10]), b.buf[100:5100]...), b.buf[6000:6590]...)
	if !bytes.Equal(got, want) {
		t.Error("wrong bytes")
	}
	_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRSend, SGList: make([]verbs.SGE, 200)}})
	wantErr(t, err, ucs.ErrInvalidParam, "200 pieces to send")
	_, err = b.qp.PostRecv([]verbs.RecvWR{{SGList: make([]verbs.SGE, 200)}})
	wantErr(t, err, ucs.ErrInvalidParam, "200 pieces to receive into")
}

// testBatch posts until the queues are full, with one signaled request at the end.
func testBatch(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	recvs := make([]verbs.RecvWR, 1<<12)
	for i := range recvs {
		recvs[i] = verbs.RecvWR{ID: uint64(i), SGList: b.at(8*(i%1000), 8)}
	}
	posted, err := b.qp.PostRecv(recvs)
	wantErr(t, err, ucs.ErrNoResource, "posting more than there is room for")
	if posted < 64 || posted >= len(recvs) {
		t.Fatalf("%d receives posted", posted)
	}
	const n = 32
	var wr [n]verbs.SendWR
	for i := range wr {
		wr[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.WRSend, SGList: a.at(8*i, 8)}
		binary.NativeEndian.PutUint64(a.buf[8*i:], uint64(1000+i))
	}
	wr[n-1].Flags = verbs.SendSignaled
	a.send(t, wr[:]...)
	a.done(t, n-1, verbs.WCSend)
	for i, wc := range b.poll(t, n) {
		if wc.ID != uint64(i) || wc.Status != verbs.WCSuccess || binary.NativeEndian.Uint64(b.buf[8*i:]) != uint64(1000+i) {
			t.Errorf("message %d: %+v, %d", i, wc, binary.NativeEndian.Uint64(b.buf[8*i:]))
		}
	}
	if a.cq.Poll(make([]verbs.WC, 1)) != 0 {
		t.Error("an unsignaled send has completed")
	}
	// An invalid request in the middle: those before it are posted.
	bad := []verbs.SendWR{wr[0], {Opcode: 99}, wr[1]}
	bad[0].Flags = verbs.SendSignaled
	k, err := a.qp.PostSend(bad)
	wantErr(t, err, ucs.ErrUnsupported, "an unknown operation")
	if k != 1 {
		t.Errorf("%d posted before the mistake", k)
	}
	a.done(t, 0, verbs.WCSend)
	b.poll(t, 1)
	_, err = a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRSend, Flags: 1 << 9}})
	wantErr(t, err, ucs.ErrInvalidParam, "unknown flags")
}

func testUC(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.UC)
	fill(a.buf[:10000], 2)
	b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, 20000)})
	a.send(t, verbs.SendWR{ID: 2, Opcode: verbs.WRSendWithImm, Imm: 5, Flags: verbs.SendSignaled, SGList: a.at(0, 10000)})
	a.done(t, 2, verbs.WCSend)
	if wc := b.done(t, 1, verbs.WCRecv); wc.ByteLen != 10000 || wc.Imm != 5 || !bytes.Equal(b.buf[:10000], a.buf[:10000]) {
		t.Errorf("send: %+v, or wrong bytes", wc)
	}
	b.recv(t, verbs.RecvWR{ID: 3})
	a.send(t, verbs.SendWR{ID: 4, Opcode: verbs.WRRDMAWriteWithImm, Imm: 6, Flags: verbs.SendSignaled, SGList: a.at(0, 5000),
		RemoteAddr: b.mr.Addr() + 30000, RKey: b.mr.RKey()})
	a.done(t, 4, verbs.WCRDMAWrite)
	b.done(t, 3, verbs.WCRecvRDMAWithImm)
	if !bytes.Equal(b.buf[30000:35000], a.buf[:5000]) {
		t.Error("write: wrong bytes")
	}
	_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRRDMARead, SGList: a.at(0, 8)}})
	wantErr(t, err, ucs.ErrUnsupported, "a read")
	_, err = a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRAtomicFetchAndAdd, SGList: a.at(0, 8)}})
	wantErr(t, err, ucs.ErrUnsupported, "an atomic operation")
}

func testUD(t *testing.T, r *rig) {
	a, b := r.newSide(t, verbs.UD), r.other().newSide(t, verbs.UD)
	a.up(t, nil)
	b.up(t, nil)
	path := r.to(b.r)
	ah := must(a.pd.CreateAH(&path))(t)
	for _, n := range []int{0, 1, r.mtu.Bytes()} {
		fill(a.buf[:n], byte(n))
		clear(b.buf[:8192])
		b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, 8192)})
		a.send(t, verbs.SendWR{ID: 2, Opcode: verbs.WRSendWithImm, Imm: 0xabcd, Flags: verbs.SendSignaled, SGList: a.at(0, n),
			AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey})
		a.done(t, 2, verbs.WCSend)
		wc := b.done(t, 1, verbs.WCRecv)
		if int(wc.ByteLen) != n+verbs.GRHLength || wc.SrcQPN != a.qp.QPN() || wc.Imm != 0xabcd || wc.Flags&verbs.WCGRH == 0 {
			t.Errorf("%d bytes: %+v from QP %#x", n, wc, a.qp.QPN())
		}
		if !bytes.Equal(b.buf[verbs.GRHLength:verbs.GRHLength+n], a.buf[:n]) || b.buf[verbs.GRHLength+n] != 0 {
			t.Errorf("%d bytes: wrong ones", n)
		}
		if from, to := r.gid, b.r.gid; to.Addr().Is4() && !bytes.Equal(b.buf[32:40], append(from[12:16:16], to[12:]...)) {
			t.Errorf("%d bytes: from and to % x in the header", n, b.buf[32:40])
		}
	}
	wr := verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 8), RemoteQPN: b.qp.QPN(), RemoteQKey: qkey}
	_, err := a.qp.PostSend([]verbs.SendWR{wr})
	wantErr(t, err, ucs.ErrInvalidParam, "no address")
	wr.AH, wr.Opcode = ah, verbs.WRRDMAWrite
	_, err = a.qp.PostSend([]verbs.SendWR{wr})
	wantErr(t, err, ucs.ErrUnsupported, "a write")
	wr.Opcode = verbs.WRSend
	_, err = b.qp.PostSend([]verbs.SendWR{wr})
	wantErr(t, err, ucs.ErrInvalidParam, "an address of another domain")
	check(t, ah.Close())
}

// testMulticast attaches queue pairs to multicast groups. Joining a group in the network is not the
// task of a queue pair.
func testMulticast(t *testing.T, r *rig) {
	s := r.newSide(t, verbs.UD)
	s.up(t, nil)
	// An IPv6 group, and an IPv4 group mapped into IPv6.
	for _, group := range []verbs.GID{{0: 0xff, 1: 0x0e, 10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}, {10: 0xff, 11: 0xff, 12: 239, 15: 3}} {
		check(t, s.qp.AttachMcast(group, 0))
		check(t, s.qp.DetachMcast(group, 0))
		wantErr(t, s.qp.DetachMcast(group, 0), ucs.ErrInvalidParam, "leaving a group twice")
	}
	wantErr(t, s.qp.AttachMcast(r.gid, 0), ucs.ErrInvalidParam, "a group that is none")
	check(t, s.qp.AttachMcast(verbs.GID{0: 0xff, 15: 1}, 0))
	check(t, s.qp.AttachMcast(verbs.GID{0: 0xff, 15: 2}, 0))
	wantErr(t, s.qp.Close(), ucs.ErrBusy, "closing a queue pair in a group")
	check(t, s.ctx.Close())
	c := r.newSide(t, verbs.RC)
	wantErr(t, c.qp.AttachMcast(verbs.GID{0: 0xff}, 0), ucs.ErrInvalidParam, "a connected queue pair")
	if r.kernel != nil {
		multicast(t, r.newSide(t, verbs.UD), r.other())
	}
}

// multicast sends to the group 239.1.2.3. Two queue pairs of a device are in it, later only one; a
// third is not in it, and a fourth has another key.
func multicast(t *testing.T, a *side, to *rig) {
	t.Helper()
	group := verbs.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}
	const n, all = 1000, 0xffffff
	a.up(t, nil)
	path := a.r.path()
	path.DGID = group
	ah := must(a.pd.CreateAH(&path))(t)
	var hears [4]*side
	for i := range hears {
		s := to.newSide(t, verbs.UD)
		s.up(t, nil)
		if i != 2 {
			check(t, s.qp.AttachMcast(group, 0))
		}
		if i == 3 {
			check(t, s.qp.Modify(&verbs.QPAttr{State: verbs.QPRTS, QKey: qkey + 1}, verbs.QPAttrState|verbs.QPAttrQKey))
		}
		for id := range uint64(3) {
			s.recv(t, verbs.RecvWR{ID: id, SGList: s.at(2000*int(id), n+verbs.GRHLength)})
		}
		hears[i] = s
	}
	for k := range 3 {
		fill(a.buf[:n], byte(k))
		a.send(t, verbs.SendWR{ID: 5, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, n), AH: ah, RemoteQPN: all, RemoteQKey: qkey})
		a.done(t, 5, verbs.WCSend)
		for i, s := range hears[:2] {
			if i == 1 && k == 2 {
				continue // it has left the group
			}
			wc := s.done(t, uint64(k), verbs.WCRecv)
			data := s.buf[2000*k+verbs.GRHLength:][:n]
			if int(wc.ByteLen) != n+verbs.GRHLength || wc.SrcQPN != a.qp.QPN() || !bytes.Equal(data, a.buf[:n]) {
				t.Errorf("message %d at %d: %+v, or wrong bytes", k, i, wc)
			}
		}
		if k == 1 {
			check(t, hears[1].qp.DetachMcast(group, 0))
		}
	}
	for _, s := range hears[1:] {
		s.nothing(t, "not in the group")
	}
}

func testSRQ(t *testing.T, r *rig) {
	b := r.newSide(t, verbs.RC)
	srq := must(b.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 16, MaxSGE: 2}))(t)
	shared := func(a *verbs.QPInitAttr) { a.SRQ = srq }
	check(t, b.qp.Close())
	var senders, receivers []*side
	for range 2 {
		s, to := r.newSide(t, verbs.RC), *b
		to.newQP(t, verbs.RC, shared)
		s.up(t, &to)
		to.up(t, s)
		senders, receivers = append(senders, s), append(receivers, &to)
	}
	for i := range 6 {
		n, err := srq.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGList: b.at(1000*i, 1000)}})
		if n != 1 || err != nil {
			t.Fatalf("posted %d: %v", n, err)
		}
	}
	check(t, srq.SetLimit(4))
	if a := must(srq.Query())(t); a.Limit != 4 || a.MaxWR < 16 || a.MaxSGE < 2 {
		t.Errorf("the queue: %+v", a)
	}
	for i := range 4 {
		s, to := senders[i%2], receivers[i%2]
		fill(s.buf[:100], byte(10*i))
		s.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: s.at(0, 100)})
		s.done(t, 0, verbs.WCSend)
		wc := to.done(t, uint64(i), verbs.WCRecv)
		if wc.ByteLen != 100 || !bytes.Equal(b.buf[1000*i:1000*i+100], s.buf[:100]) {
			t.Errorf("message %d: %+v, or wrong bytes", i, wc)
		}
	}
	for {
		e := must(b.ctx.GetAsyncEvent(timeout(t)))(t)
		if e.Type == verbs.EventSRQLimitReached {
			if e.SRQ != srq {
				t.Errorf("%v of another queue", e)
			}
			break
		}
		t.Logf("%v", e)
	}
	_, err := receivers[0].qp.PostRecv([]verbs.RecvWR{{}})
	wantErr(t, err, ucs.ErrInvalidParam, "a receive for a queue pair that has none of its own")
	wantErr(t, srq.SetLimit(1<<20), ucs.ErrInvalidParam, "a limit above the size")
	wantErr(t, srq.Close(), ucs.ErrBusy, "closing a queue in use")
	for _, to := range receivers {
		check(t, to.qp.Close())
	}
	check(t, srq.Close())
}

// testArena transfers data between memory that is not managed by Go.
func testArena(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	src := must(arena.Map(1<<16, arena.Options{}))(t)
	dst := must(arena.Map(1<<16, arena.Options{}))(t)
	from := must(a.pd.RegMR(src, 0))(t)
	to := must(b.pd.RegMR(dst, verbs.AccessLocalWrite|verbs.AccessRemoteWrite))(t)
	if from.RKey() != 0 || to.RKey() == 0 || from.LKey() == 0 || to.Len() != 1<<16 {
		t.Errorf("keys %#x %#x, %#x %#x", from.LKey(), from.RKey(), to.LKey(), to.RKey())
	}
	fill(src, 8)
	a.send(t, verbs.SendWR{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{from.SGE(0, 1<<16)},
		RemoteAddr: to.Addr(), RKey: to.RKey()})
	a.done(t, 0, verbs.WCRDMAWrite)
	if !bytes.Equal(src, dst) {
		t.Error("wrong bytes")
	}
	check(t, from.Close())
	check(t, to.Close())
	check(t, arena.Unmap(src))
	check(t, arena.Unmap(dst))
}

// state returns the current state of a queue pair.
func (s *side) state(t *testing.T) verbs.QPState {
	t.Helper()
	return must(s.qp.Query(verbs.QPAttrState))(t).State
}
