//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// testPost writes one request of each kind directly into the queue and rings once.
func testPost(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	fill(a.buf[:4000], 1)
	fill(b.buf[40000:41000], 7)
	binary.NativeEndian.PutUint64(b.buf[50000:], 5)
	for i := range uint64(3) {
		b.recv(t, verbs.RecvWR{ID: i, SGList: b.at(1000*int(i), 1000)})
	}
	at := func(off int) (uint64, verbs.RKey) { return b.mr.Addr() + uint64(off), b.mr.RKey() }
	const signaled = verbs.SendSignaled
	p := a.qp.Begin()
	p.Send(10, signaled)
	p.Inline(a.buf[:7])
	p.Inline(nil)
	p.Inline(a.buf[7:50])
	p.SendImm(11, signaled, 0x01020304)
	p.SGE(a.mr.SGE(100, 300))
	p.SGE(a.mr.SGE(400, 300))
	addr, key := at(30000)
	p.Write(12, signaled, addr, key)
	p.Inline(a.buf[:20])
	addr, key = at(31000)
	p.WriteImm(13, signaled|verbs.SendSolicited, addr, key, 9)
	p.SGE(a.mr.SGE(0, 4000))
	addr, key = at(40000)
	p.Read(14, signaled|verbs.SendFence, addr, key)
	p.SGE(a.mr.SGE(8000, 1000))
	addr, key = at(50000)
	p.FetchAdd(15, signaled, addr, key, 3)
	p.SGE(a.mr.SGE(9000, 8))
	p.CompareSwap(16, signaled, addr, key, 8, 100)
	p.SGE(a.mr.SGE(9008, 8))
	p.Write(17, signaled, addr, key) // of no bytes
	if n, err := p.Ring(); n != 8 || err != nil {
		t.Fatalf("%d requests: %v", n, err)
	}
	for i, wc := range a.poll(t, 8) {
		if wc.Err() != nil || wc.ID != uint64(10+i) {
			t.Errorf("%+v: %v", wc, wc.Err())
		}
	}
	want := []struct{ n, imm uint32 }{{50, 0}, {600, 0x01020304}, {4000, 9}}
	for i, wc := range b.poll(t, 3) {
		if wc.Err() != nil || wc.ID != uint64(i) || wc.ByteLen != want[i].n || wc.Imm != want[i].imm {
			t.Errorf("%+v: %v, want %v", wc, wc.Err(), want[i])
		}
	}
	for what, same := range map[string]bool{
		"inline":        bytes.Equal(b.buf[:50], a.buf[:50]) && b.buf[50] == 0,
		"gathered":      bytes.Equal(b.buf[1000:1600], a.buf[100:700]),
		"written":       bytes.Equal(b.buf[30000:30020], a.buf[:20]) && b.buf[30020] == 0,
		"written (imm)": bytes.Equal(b.buf[31000:35000], a.buf[:4000]),
		"read":          bytes.Equal(a.buf[8000:9000], b.buf[40000:41000]),
		"atomics": binary.NativeEndian.Uint64(a.buf[9000:]) == 5 && binary.NativeEndian.Uint64(a.buf[9008:]) == 8 &&
			binary.NativeEndian.Uint64(b.buf[50000:]) == 100,
	} {
		if !same {
			t.Errorf("%s: wrong bytes", what)
		}
	}

	u, v := r.newSide(t, verbs.UD), r.other().newSide(t, verbs.UD)
	u.up(t, nil)
	v.up(t, nil)
	path := u.r.to(v.r)
	ah := must(u.pd.CreateAH(&path))(t)
	v.recv(t, verbs.RecvWR{ID: 1, SGList: v.at(0, 200)}, verbs.RecvWR{ID: 2, SGList: v.at(200, 200)})
	p = u.qp.Begin()
	p.Send(3, signaled)
	p.Inline(a.buf[:30])
	p.To(ah, v.qp.QPN(), qkey)
	p.SendImm(4, signaled, 77)
	p.To(ah, v.qp.QPN(), qkey)
	p.SGE(u.mr.SGE(0, 10))
	if n, err := p.Ring(); n != 2 || err != nil {
		t.Fatalf("%d datagrams: %v", n, err)
	}
	u.poll(t, 2)
	for i, wc := range v.poll(t, 2) {
		if n := []uint32{30, 10}[i]; wc.Err() != nil || wc.ByteLen != n+verbs.GRHLength || wc.SrcQPN != u.qp.QPN() {
			t.Errorf("%+v: %v", wc, wc.Err())
		}
	}
	if !bytes.Equal(v.buf[verbs.GRHLength:][:30], a.buf[:30]) {
		t.Error("a datagram: wrong bytes")
	}
}

// testPostMistakes checks that the first invalid request of a batch, and all after it, are dropped,
// and that those before it are posted.
func testPostMistakes(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	u := r.newSide(t, verbs.UD)
	u.up(t, nil)
	path := u.r.path()
	ah := must(u.pd.CreateAH(&path))(t)
	long := make([]byte, a.qp.Cap().MaxInline+1)
	rc, ud := a, u
	for what, c := range map[string]struct {
		on    *side
		bad   func(p *verbs.Post)
		want  error
		first bool // in the batch
	}{
		"unknown flags":        {rc, func(p *verbs.Post) { p.Send(1, 1<<9) }, ucs.ErrInvalidParam, false},
		"too much inline":      {rc, func(p *verbs.Post) { p.Send(1, 0); p.Inline(long) }, ucs.ErrExceedsLimit, false},
		"too much, in two":     {rc, func(p *verbs.Post) { p.Send(1, 0); p.Inline(long[1:]); p.Inline(long[:1]) }, ucs.ErrExceedsLimit, false},
		"inline and pieces":    {rc, func(p *verbs.Post) { p.Send(1, 0); p.Inline(long[:1]); p.SGE(a.mr.SGE(0, 1)) }, ucs.ErrInvalidParam, false},
		"pieces and inline":    {rc, func(p *verbs.Post) { p.Send(1, 0); p.SGE(a.mr.SGE(0, 1)); p.Inline(long[:1]) }, ucs.ErrInvalidParam, false},
		"inline with a read":   {rc, func(p *verbs.Post) { p.Read(1, 0, b.mr.Addr(), b.mr.RKey()); p.Inline(long[:1]) }, ucs.ErrInvalidParam, false},
		"an atomic of nothing": {rc, func(p *verbs.Post) { p.FetchAdd(1, 0, b.mr.Addr(), b.mr.RKey(), 1) }, ucs.ErrInvalidParam, false},
		"an atomic of 4 bytes": {rc, func(p *verbs.Post) { p.FetchAdd(1, 0, b.mr.Addr(), b.mr.RKey(), 1); p.SGE(a.mr.SGE(0, 4)) }, ucs.ErrInvalidParam, false},
		"an atomic of 2 pieces": {rc, func(p *verbs.Post) {
			p.FetchAdd(1, 0, b.mr.Addr(), b.mr.RKey(), 1)
			p.SGE(a.mr.SGE(0, 8))
			p.SGE(a.mr.SGE(0, 8))
		}, ucs.ErrInvalidParam, false},
		"an atomic off a word": {rc, func(p *verbs.Post) { p.CompareSwap(1, 0, b.mr.Addr()+4, b.mr.RKey(), 1, 2); p.SGE(a.mr.SGE(0, 8)) }, ucs.ErrInvalidParam, false},
		"data to invalidate":   {rc, func(p *verbs.Post) { p.LocalInv(1, 0, 0); p.SGE(a.mr.SGE(0, 8)) }, ucs.ErrInvalidParam, false},
		"a bind of nothing":    {rc, func(p *verbs.Post) { p.BindMW(1, 0, verbs.MWBind{}) }, ucs.ErrInvalidParam, false},
		"an address with RC":   {rc, func(p *verbs.Post) { p.Send(1, 0); p.To(ah, 1, 1) }, ucs.ErrInvalidParam, false},
		"2 GiB and more": {rc, func(p *verbs.Post) {
			p.Send(1, 0)
			p.SGE(verbs.SGE{Length: 1 << 31})
			p.SGE(verbs.SGE{Length: 1})
		}, ucs.ErrInvalidParam, false},
		"too many pieces": {rc, func(p *verbs.Post) {
			p.Send(1, 0)
			for range a.qp.Cap().MaxSendSGE + 1 {
				p.SGE(a.mr.SGE(0, 1))
			}
		}, ucs.ErrInvalidParam, false},
		"a piece of nothing":      {rc, func(p *verbs.Post) { p.SGE(a.mr.SGE(0, 1)) }, ucs.ErrInvalidParam, true},
		"inline of nothing":       {rc, func(p *verbs.Post) { p.Inline(long[:1]) }, ucs.ErrInvalidParam, true},
		"an address of nothing":   {ud, func(p *verbs.Post) { p.To(ah, 1, 1) }, ucs.ErrInvalidParam, true},
		"a datagram to nowhere":   {ud, func(p *verbs.Post) { p.Send(1, 0) }, ucs.ErrInvalidParam, true},
		"a datagram to nobody":    {ud, func(p *verbs.Post) { p.Send(1, 0); p.To(nil, 1, 1) }, ucs.ErrInvalidParam, true},
		"a write as a datagram":   {ud, func(p *verbs.Post) { p.Write(1, 0, 0, 0) }, ucs.ErrUnsupported, true},
		"an atomic as a datagram": {ud, func(p *verbs.Post) { p.FetchAdd(1, 0, 0, 0, 0) }, ucs.ErrUnsupported, true},
	} {
		before := 0
		p := c.on.qp.Begin()
		if !c.first {
			b.recv(t, verbs.RecvWR{ID: 20, SGList: b.at(0, 8)})
			p.Send(10, verbs.SendSignaled)
			p.Inline([]byte{byte(before)})
			before++
		}
		c.bad(p)
		err := p.Err()
		p.Send(11, verbs.SendSignaled) // has no effect any more
		p.Inline(long[:3])
		p.SGE(a.mr.SGE(0, 1))
		p.To(ah, 1, 1)
		n, ring := p.Ring()
		if n != before || ring == nil || err != nil && err != ring || p.Err() != nil {
			t.Errorf("%s: %d posted of %d: %v, then %v", what, n, before, err, ring)
		}
		wantErr(t, ring, c.want, what)
		if before != 0 {
			c.on.done(t, 10, verbs.WCSend)
			b.done(t, 20, verbs.WCRecv)
		}
	}
	a.works(t, b, 3)

	// A queue pair that cannot send yet.
	c := r.newSide(t, verbs.RC)
	p := c.qp.Begin()
	p.Send(1, 0)
	wantErr(t, p.Err(), ucs.ErrInvalidParam, "before RTS")
	n, err := p.Ring()
	if n != 0 {
		t.Errorf("%d posted before RTS", n)
	}
	wantErr(t, err, ucs.ErrInvalidParam, "before RTS")
	c.up(t, nil, func(a *verbs.QPAttr) { a.DestQPN = c.qp.QPN() })
	for range c.qp.Cap().MaxSendWR {
		p.Write(2, 0, c.mr.Addr(), c.mr.RKey())
	}
	full := 0
	for ; p.Err() == nil; full++ {
		p.Write(2, 0, c.mr.Addr(), c.mr.RKey())
	}
	n, err = p.Ring()
	if n != c.qp.Cap().MaxSendWR+full-1 {
		t.Errorf("%d posted, %+v", n, c.qp.Cap())
	}
	wantErr(t, err, ucs.ErrNoResource, "a full queue")
	p = c.qp.Begin()
	p.Write(3, verbs.SendSignaled, c.mr.Addr(), c.mr.RKey())
	check(t, c.qp.Close())
	p.Inline(long[:1])
	if n, err := p.Ring(); n != 0 || err == nil {
		t.Errorf("%d posted to what is closed: %v", n, err)
	}
}

// testPostForgets checks that requests that were begun but not rung are never sent.
func testPostForgets(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	region := must(a.pd.RegMR(make([]byte, 100), fullAccess|verbs.AccessMWBind))(t)
	mw, other := must(a.pd.AllocMW())(t), must(a.pd.AllocMW())(t)
	keys := [2]verbs.RKey{mw.RKey(), other.RKey()}
	bind := func(p *verbs.Post, w *verbs.MW) {
		p.BindMW(1, verbs.SendSignaled, verbs.MWBind{MW: w, MR: region, Addr: region.Addr(), Length: 10, Access: verbs.AccessRemoteWrite})
	}
	b.recv(t, verbs.RecvWR{ID: 5, SGList: b.at(0, 100)})
	for _, stop := range []func(){
		func() {
			defer func() { recover() }()
			p := a.qp.Begin()
			bind(p, mw)
			bind(p, other)
			p.LocalInv(2, 0, mw.RKey())
			bind(p, mw)
			if mw.RKey() == keys[0] || other.RKey() == keys[1] {
				t.Error("binds that give no key")
			}
			p.Send(3, verbs.SendSignaled)
			p.Inline([]byte("never"))
			p.SGE(a.mr.SGE(bufSize, 1)) // panics
		},
		func() {
			p := a.qp.Begin()
			bind(p, other)
			p.Send(3, verbs.SendSignaled)
			p.Send(4, 1<<20)
		},
		func() {
			p := a.qp.Begin()
			bind(p, mw)
			p.Send(3, verbs.SendSignaled)
			check(t, a.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState))
			check(t, b.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState))
			a.up(t, b)
			b.up(t, a)
			b.recv(t, verbs.RecvWR{ID: 5, SGList: b.at(0, 100)})
			if n, err := p.Ring(); n != 0 || err != nil {
				t.Errorf("%d posted after the reset: %v", n, err)
			}
		},
	} {
		stop()
		p := a.qp.Begin()
		if mw.RKey() != keys[0] || other.RKey() != keys[1] {
			t.Errorf("keys %#x and %#x, %#x before", mw.RKey(), other.RKey(), keys)
		}
		p.Send(7, verbs.SendSignaled)
		p.Inline([]byte("this"))
		if n, err := p.Ring(); n != 1 || err != nil {
			t.Fatalf("%d posted: %v", n, err)
		}
		a.done(t, 7, verbs.WCSend)
		if wc := b.done(t, 5, verbs.WCRecv); wc.ByteLen != 4 || string(b.buf[:4]) != "this" {
			t.Errorf("%d bytes: %q", wc.ByteLen, b.buf[:4])
		}
		b.recv(t, verbs.RecvWR{ID: 5, SGList: b.at(0, 100)})
	}
	p := a.qp.Begin()
	bind(p, mw)
	bind(p, other)
	if n, err := p.Ring(); n != 2 || err != nil {
		t.Fatalf("%d bound: %v", n, err)
	}
	a.done(t, 1, verbs.WCBindMW)
	a.done(t, 1, verbs.WCBindMW)
	for _, w := range []*verbs.MW{mw, other} {
		b.send(t, verbs.SendWR{ID: 8, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled | verbs.SendInline, Inline: [][]byte{{1, 2}},
			RemoteAddr: region.Addr(), RKey: w.RKey()})
		b.done(t, 8, verbs.WCRDMAWrite)
		check(t, w.Close())
	}
	check(t, region.Close())
}
