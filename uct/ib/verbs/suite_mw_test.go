//go:build linux

package verbs_test

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// testWindows opens a part of a region to a peer, closes it from both sides, and checks what cannot
// be accessed.
func testWindows(t *testing.T, r *rig) {
	if must(r.open(t).QueryDevice())(t).MaxMW == 0 {
		t.Skip("the device has no memory windows")
	}
	for _, swap := range []bool{false, true} {
		a, b := r.pair(t, verbs.RC)
		if swap {
			a, b = b, a
		}
		windows(t, a, b)
	}
	// Closing the device closes an open window before its region.
	_, c := r.pair(t, verbs.RC)
	held := must(c.pd.RegMR(make([]byte, 8192), verbs.AccessLocalWrite|verbs.AccessMWBind))(t)
	c.send(t, verbs.SendWR{ID: 7, Opcode: verbs.WRBindMW, Flags: verbs.SendSignaled,
		Bind: &verbs.MWBind{MW: must(c.pd.AllocMW())(t), MR: held, Addr: held.Addr(), Length: 1}})
	c.done(t, 7, verbs.WCBindMW)
	wantErr(t, held.Close(), ucs.ErrInvalidParam, "closing a region with a window")
	check(t, c.ctx.Close())
}

// windows makes a use the windows of b.
func windows(t *testing.T, a, b *side) {
	t.Helper()
	region := must(b.pd.RegMR(make([]byte, 8192), verbs.AccessLocalWrite|verbs.AccessMWBind))(t)
	mw := must(b.pd.AllocMW())(t)
	bind := func() {
		t.Helper()
		old := mw.RKey()
		b.send(t, verbs.SendWR{ID: 1, Opcode: verbs.WRBindMW, Flags: verbs.SendSignaled,
			Bind: &verbs.MWBind{MW: mw, MR: region, Addr: region.Addr() + 1000, Length: 100, Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead}})
		b.done(t, 1, verbs.WCBindMW)
		if mw.RKey() == old || mw.RKey()^old > 0xff {
			t.Errorf("key %#x after %#x", mw.RKey(), old)
		}
	}
	fill(a.buf, 3)
	write := verbs.SendWR{ID: 2, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: a.at(0, 100), RemoteAddr: region.Addr() + 1000}
	try := func() {
		t.Helper()
		clear(region.Bytes())
		write.RKey = mw.RKey()
		a.send(t, write)
		a.done(t, 2, verbs.WCRDMAWrite)
		if !bytes.Equal(region.Bytes()[1000:1100], a.buf[:100]) {
			t.Error("wrong bytes")
		}
	}
	bind()
	try()
	b.send(t, verbs.SendWR{ID: 3, Opcode: verbs.WRLocalInv, Flags: verbs.SendSignaled, InvalidateKey: mw.RKey()})
	b.done(t, 3, verbs.WCLocalInv)
	bind()
	try()
	b.recv(t, verbs.RecvWR{ID: 4, SGList: b.at(0, 100)})
	a.send(t, verbs.SendWR{ID: 5, Opcode: verbs.WRSendWithInv, Flags: verbs.SendSignaled, SGList: a.at(0, 10), InvalidateKey: mw.RKey()})
	a.done(t, 5, verbs.WCSend)
	if wc := b.done(t, 4, verbs.WCRecv); wc.Flags&verbs.WCWithInv == 0 || wc.InvalidatedRKey != mw.RKey() || wc.Imm != 0 {
		t.Errorf("%+v, want key %#x", wc, mw.RKey())
	}
	bind()
	for what, wr := range map[string]verbs.SendWR{
		"another domain":      {Opcode: verbs.WRBindMW, Bind: &verbs.MWBind{MW: mw, MR: a.mr, Addr: a.mr.Addr(), Length: 1}},
		"outside the region":  {Opcode: verbs.WRBindMW, Bind: &verbs.MWBind{MW: mw, MR: region, Addr: region.Addr() + 8192, Length: 1}},
		"nothing to be bound": {Opcode: verbs.WRBindMW},
	} {
		_, err := b.qp.PostSend([]verbs.SendWR{wr})
		wantErr(t, err, ucs.ErrInvalidParam, what)
	}
	try()
	if a.r.kernel != nil {
		// One byte beyond the window, but within the region: rdma_rxe of Linux 6.1 does not
		// check that (check_rkey, drivers/infiniband/sw/rxe/rxe_resp.c).
		write.RemoteAddr++
	} else {
		b.send(t, verbs.SendWR{ID: 6, Opcode: verbs.WRLocalInv, Flags: verbs.SendSignaled, InvalidateKey: mw.RKey()})
		b.done(t, 6, verbs.WCLocalInv)
	}
	clear(region.Bytes())
	a.send(t, write)
	if wc := a.poll(t, 1)[0]; wc.Status != verbs.WCRemAccessErr {
		t.Errorf("what is not open: %+v (%v)", wc, wc.Status)
	}
	if !bytes.Equal(region.Bytes(), make([]byte, region.Len())) {
		t.Error("what is not open was written")
	}
	check(t, mw.Close())
	check(t, region.Close())
}
