//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// sharing returns a pair of which b receives from a shared queue.
func (r *rig) sharing(t *testing.T, attr verbs.SRQInitAttr) (a, b *side, srq *verbs.SRQ) {
	t.Helper()
	a, b = r.newSide(t, verbs.RC), r.other().newSide(t, verbs.RC)
	srq = must(b.pd.CreateSRQ(&attr))(t)
	check(t, b.qp.Close())
	b.newQP(t, verbs.RC, func(q *verbs.QPInitAttr) { q.SRQ = srq })
	a.up(t, b)
	b.up(t, a)
	return a, b, srq
}

// testSRQOpcodes has all operations that use a receive take it from a shared queue, in order, with
// reads and atomics in between, which use none.
func testSRQOpcodes(t *testing.T, r *rig) {
	a, b, srq := r.sharing(t, verbs.SRQInitAttr{MaxWR: 32, MaxSGE: 2})
	windows := must(b.ctx.QueryDevice())(t).MaxMW > 0
	const n = 600
	id, word := uint64(0), b.buf[60000:60008]
	remote := func(op verbs.WROpcode, off int) verbs.SendWR {
		return verbs.SendWR{ID: 9, Opcode: op, Flags: verbs.SendSignaled, SGList: a.at(0, n), RemoteAddr: b.mr.Addr() + uint64(off), RKey: b.mr.RKey()}
	}
	for round := range 10 {
		for i := range 4 {
			k, err := srq.PostRecv([]verbs.RecvWR{{ID: id + uint64(i), SGList: []verbs.SGE{b.mr.SGE(1000*i, 100), b.mr.SGE(1000*i+100, 900)}}})
			if k != 1 || err != nil {
				t.Fatalf("posted %d: %v", k, err)
			}
		}
		fill(a.buf[:n], byte(round))
		clear(b.buf[:50000])
		arrives := func(op verbs.WCOpcode, off int, imm uint32) {
			t.Helper()
			if wc := b.done(t, id, op); wc.ByteLen != n || wc.Imm != imm || !bytes.Equal(b.buf[off:off+n], a.buf[:n]) {
				t.Errorf("round %d, receive %d: %+v, or wrong bytes", round, id, wc)
			}
			id++
		}
		atomic := func() {
			t.Helper()
			w := remote(verbs.WRAtomicFetchAndAdd, 60000)
			w.SGList, w.CompareAdd = a.at(50000, 8), 3
			a.send(t, w)
			a.done(t, 9, verbs.WCFetchAdd)
		}
		a.send(t, remote(verbs.WRSend, 0))
		a.done(t, 9, verbs.WCSend)
		arrives(verbs.WCRecv, 0, 0)
		atomic()
		w := remote(verbs.WRSendWithImm, 0)
		w.Imm = 77
		a.send(t, w)
		a.done(t, 9, verbs.WCSend)
		arrives(verbs.WCRecv, 1000, 77)
		w = remote(verbs.WRRDMARead, 1000)
		w.SGList = a.at(10000, n)
		a.send(t, w)
		a.done(t, 9, verbs.WCRDMARead)
		if !bytes.Equal(a.buf[10000:10000+n], a.buf[:n]) {
			t.Errorf("round %d: wrong bytes read", round)
		}
		w = remote(verbs.WRRDMAWriteWithImm, 30000)
		w.Imm = 78
		a.send(t, w)
		a.done(t, 9, verbs.WCRDMAWrite)
		arrives(verbs.WCRecvRDMAWithImm, 30000, 78)
		atomic()
		if !windows || round > 0 {
			a.send(t, remote(verbs.WRSend, 0))
			a.done(t, 9, verbs.WCSend)
			arrives(verbs.WCRecv, 3000, 0)
			continue
		}
		region := must(b.pd.RegMR(make([]byte, 4096), verbs.AccessLocalWrite|verbs.AccessMWBind))(t)
		mw := must(b.pd.AllocMW())(t)
		b.send(t, verbs.SendWR{ID: 8, Opcode: verbs.WRBindMW, Flags: verbs.SendSignaled,
			Bind: &verbs.MWBind{MW: mw, MR: region, Addr: region.Addr(), Length: n, Access: verbs.AccessRemoteWrite}})
		b.done(t, 8, verbs.WCBindMW)
		w = remote(verbs.WRRDMAWrite, 0)
		w.RemoteAddr, w.RKey = region.Addr(), mw.RKey()
		a.send(t, w)
		a.done(t, 9, verbs.WCRDMAWrite)
		if !bytes.Equal(region.Bytes()[:n], a.buf[:n]) {
			t.Error("wrong bytes in the window")
		}
		w = remote(verbs.WRSendWithInv, 0)
		w.InvalidateKey = mw.RKey()
		a.send(t, w)
		a.done(t, 9, verbs.WCSend)
		arrives(verbs.WCRecv, 3000, 0)
		check(t, mw.Close())
		check(t, region.Close())
	}
	if v := binary.NativeEndian.Uint64(word); v != 60 {
		t.Errorf("20 additions of 3 make %d", v)
	}
}

// testSRQResize checks that posted receives survive a resize, in order.
func testSRQResize(t *testing.T, r *rig) {
	a, b, srq := r.sharing(t, verbs.SRQInitAttr{MaxWR: 7, MaxSGE: 1})
	was := srq.MaxWR()
	posted, arrived := 0, 0
	post := func(n int) {
		t.Helper()
		for range n {
			k, err := srq.PostRecv([]verbs.RecvWR{{ID: uint64(posted), SGList: b.at(100*(posted%100), 100)}})
			if k != 1 || err != nil {
				t.Fatalf("receive %d: %v", posted, err)
			}
			posted++
		}
	}
	arrive := func(n int) {
		t.Helper()
		for range n {
			fill(a.buf[:100], byte(arrived))
			a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 100)})
			a.done(t, 0, verbs.WCSend)
			b.done(t, uint64(arrived), verbs.WCRecv)
			if off := 100 * (arrived % 100); !bytes.Equal(b.buf[off:off+100], a.buf[:100]) {
				t.Errorf("message %d: wrong bytes", arrived)
			}
			arrived++
		}
	}
	post(5)
	arrive(3)
	post(4) // wraps around the end of the ring
	if b.ctx.Driver() == "mlx5" {
		wantErr(t, srq.Resize(50), ucs.ErrUnsupported, "more room")
		arrive(posted - arrived)
		return
	}
	check(t, srq.Resize(50))
	if srq.MaxWR() < 50 || srq.MaxWR() <= was {
		t.Errorf("room for %d after %d", srq.MaxWR(), was)
	}
	post(40)
	arrive(20)
	wantErr(t, srq.Resize(5), ucs.ErrInvalidParam, "no room for what is posted")
	wantErr(t, srq.Resize(0), ucs.ErrInvalidParam, "no room at all")
	check(t, srq.Resize(30))
	arrive(posted - arrived)
	for full := 0; ; full++ {
		if _, err := srq.PostRecv([]verbs.RecvWR{{}}); err != nil {
			if !errors.Is(err, ucs.ErrNoResource) || full != srq.MaxWR() || full < 30 || full > 40 {
				t.Errorf("%d receives of %d posted: %v", full, srq.MaxWR(), err)
			}
			break
		}
	}
	check(t, b.qp.Close())
	check(t, srq.Close())
	wantErr(t, srq.Resize(10), ucs.ErrInvalidParam, "a closed queue")
}

// testDMABuf checks that memory which the driver cannot register is refused as unsupported.
func testDMABuf(t *testing.T, r *rig) {
	c := r.open(t)
	if c.Driver() != "rxe" && r.kernel == nil {
		t.Skip("no dma-buf to try it with")
	}
	_, err := must(c.AllocPD())(t).RegDMABufMR(0, 4096, 0, 0, verbs.AccessLocalWrite)
	wantErr(t, err, ucs.ErrUnsupported, "memory of another device")
}

// testRereg changes the access that peers have to a region, and its domain.
func testRereg(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	mr := must(b.pd.RegMR(make([]byte, 4096), verbs.AccessLocalWrite|verbs.AccessRemoteRead))(t)
	wantErr(t, mr.Rereg(0, nil, nil, 0), ucs.ErrInvalidParam, "no change")
	wantErr(t, mr.Rereg(verbs.ReregPD, nil, nil, 0), ucs.ErrInvalidParam, "no domain")
	wantErr(t, mr.Rereg(verbs.ReregPD, must(r.open(t).AllocPD())(t), nil, 0), ucs.ErrInvalidParam, "the domain of another device")
	wantErr(t, mr.Rereg(verbs.ReregTranslation, nil, nil, 0), ucs.ErrInvalidParam, "no memory")
	wantErr(t, mr.Rereg(verbs.ReregAccess, nil, nil, verbs.AccessRemoteWrite), ucs.ErrInvalidParam, "remote writes without local ones")
	write := func() {
		t.Helper()
		fill(a.buf[:100], 5)
		a.send(t, verbs.SendWR{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: a.at(0, 100), RemoteAddr: mr.Addr(), RKey: mr.RKey()})
		a.done(t, 0, verbs.WCRDMAWrite)
		if !bytes.Equal(mr.Bytes()[:100], a.buf[:100]) {
			t.Error("wrong bytes")
		}
	}
	err := mr.Rereg(verbs.ReregAccess, nil, nil, fullAccess)
	if errors.Is(err, ucs.ErrUnsupported) && r.kernel == nil {
		t.Logf("as it should be before Linux 6.4: %v", err)
	} else {
		check(t, err)
		write()
		other := must(b.ctx.AllocPD())(t)
		check(t, mr.Rereg(verbs.ReregPD, other, nil, 0))
		wantErr(t, other.Close(), ucs.ErrBusy, "a domain with memory")
		check(t, mr.Rereg(verbs.ReregPD|verbs.ReregAccess, b.pd, nil, fullAccess))
		check(t, other.Close())
		write()
	}
	old := mr.Addr()
	switch err = mr.Rereg(verbs.ReregTranslation, nil, make([]byte, 8192), 0); {
	case err == nil:
		if mr.Len() != 8192 || mr.Addr() == old || len(mr.Bytes()) != 8192 {
			t.Errorf("%d bytes at %#x", mr.Len(), mr.Addr())
		}
		write()
	case r.kernel != nil || !errors.Is(err, ucs.ErrUnsupported):
		t.Error(err)
	case mr.Len() != 4096 || mr.Addr() != old:
		t.Errorf("changed, but %v", err)
	}
	check(t, mr.Close())
	wantErr(t, mr.Rereg(verbs.ReregAccess, nil, nil, 0), ucs.ErrInvalidParam, "a closed region")
}
