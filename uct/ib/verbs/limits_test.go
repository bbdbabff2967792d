//go:build linux

package verbs_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// These tests use simulated devices with lower limits than rdma_rxe, or other differences.

// oneRig returns the second of two devices, which has the configuration c.
func oneRig(t *testing.T, c verbstest.Config) *rig {
	t.Helper()
	ucttest.NoLeaks(t)
	return fabricRigs(t, verbstest.NewFabric(), verbstest.Config{}, c).peer
}

// TestLimits checks that a device reports its limits and refuses to exceed them.
func TestLimits(t *testing.T) {
	r := oneRig(t, verbstest.Config{Limits: verbstest.Limits{QPs: 2, WR: 3, SGE: 4, Inline: 100, CQE: 15, SRQs: 1, SRQWR: 7, RdAtomic: 2}})
	c := r.open(t)
	d := must(c.QueryDevice())(t)
	if d.MaxQP != 2 || d.MaxQPWR != 3 || d.MaxSGE != 4 || d.MaxCQE != 15 || d.MaxSRQ != 1 || d.MaxSRQWR != 7 || d.MaxSRQSGE != 4 ||
		d.MaxQPRdAtom != 2 || d.MaxQPInitRdAtom != 2 {
		t.Errorf("%+v", d)
	}
	pd := must(c.AllocPD())(t)
	_, err := c.CreateCQ(16, nil, 0)
	wantErr(t, err, syscall.EINVAL, "completions")
	cq := must(c.CreateCQ(15, nil, 0))(t)
	wantErr(t, cq.Resize(16), syscall.EINVAL, "more completions")
	create := func(change func(*verbs.QPCap)) (*verbs.QP, error) {
		a := &verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 2, MaxRecvWR: 3, MaxSendSGE: 4, MaxRecvSGE: 1, MaxInline: 90}}
		change(&a.Cap)
		return pd.CreateQP(a)
	}
	for what, change := range map[string]func(*verbs.QPCap){
		"sends":    func(c *verbs.QPCap) { c.MaxSendWR = 4 },
		"receives": func(c *verbs.QPCap) { c.MaxRecvWR = 4 },
		"pieces":   func(c *verbs.QPCap) { c.MaxSendSGE = 5 },
		"places":   func(c *verbs.QPCap) { c.MaxRecvSGE = 5 },
		"inline":   func(c *verbs.QPCap) { c.MaxInline = 101 },
	} {
		_, err := create(change)
		wantErr(t, err, syscall.EINVAL, what)
	}
	qp := must(create(func(c *verbs.QPCap) {}))(t)
	if c := qp.Cap(); c.MaxInline != 90 || c.MaxSendWR != 3 || c.MaxRecvWR != 3 {
		t.Errorf("%+v", c)
	}
	must(create(func(c *verbs.QPCap) { c.MaxInline = 0 }))(t)
	_, err = create(func(*verbs.QPCap) {})
	wantErr(t, err, ucs.ErrNoMemory, "queue pairs")
	check(t, qp.Close())
	must(create(func(*verbs.QPCap) {}))(t)
	_, err = pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 8, MaxSGE: 1})
	wantErr(t, err, syscall.EINVAL, "shared receives")
	srq := must(pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 7, MaxSGE: 1}))(t)
	wantErr(t, srq.Resize(8), syscall.EINVAL, "more shared receives")
	_, err = pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 1, MaxSGE: 1})
	wantErr(t, err, ucs.ErrNoMemory, "shared receive queues")
	check(t, srq.Close())
	must(pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 1, MaxSGE: 1}))(t)
}

// TestLimitInline checks devices with no room for inline data, or with less than for scatter/gather
// elements.
func TestLimitInline(t *testing.T) {
	for most, want := range map[int]int{-1: 0, 40: 40, 0: 80} {
		r := oneRig(t, verbstest.Config{Limits: verbstest.Limits{Inline: most}})
		a := r.newSide(t, verbs.RC, func(a *verbs.QPInitAttr) { a.Cap.MaxSendSGE, a.Cap.MaxInline = 5, 0 })
		if n := a.qp.Cap().MaxInline; n != want {
			t.Errorf("%d bytes inline with the limit %d, want %d", n, most, want)
		}
		_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRSend, Flags: verbs.SendInline, Inline: [][]byte{make([]byte, want+1)}}})
		if err == nil {
			t.Error("more than fits")
		}
	}
}

// TestLimitReads checks that RdAtomic bounds the attributes with which queue pairs are connected.
func TestLimitReads(t *testing.T) {
	r := oneRig(t, verbstest.Config{Limits: verbstest.Limits{RdAtomic: 2}})
	for _, a := range []verbs.QPAttr{{MaxRdAtomic: 3, MaxDestRdAtomic: 2}, {MaxRdAtomic: 2, MaxDestRdAtomic: 3}, {MaxRdAtomic: 2, MaxDestRdAtomic: 2}} {
		s := r.newSide(t, verbs.RC)
		s.toInit(t)
		fits := a.MaxRdAtomic <= 2 && a.MaxDestRdAtomic <= 2
		a.AH, a.PathMTU, a.DestQPN = r.path(), r.mtu, s.qp.QPN()
		if err := s.qp.Connect(&a); (err == nil) != fits || err != nil && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%d and %d: %v", a.MaxRdAtomic, a.MaxDestRdAtomic, err)
		}
	}
}

// TestLimitMemory checks that whole pages are counted, and released.
func TestLimitMemory(t *testing.T) {
	const page = 4096
	r := oneRig(t, verbstest.Config{Limits: verbstest.Limits{MemLock: 4 * page}})
	c := r.open(t)
	pd := must(c.AllocPD())(t)
	memory := must(arena.Map(20*page, arena.Options{}))(t)
	must(pd.RegMR(memory[:1], 0))(t)
	first := must(pd.RegMR(memory[page-1:][:2], 0))(t) // two pages, after the one above
	if now, most := r.kernel.Pinned(); now != 3*page || most != 3*page {
		t.Errorf("%d bytes, %d at most", now, most)
	}
	_, err := pd.RegMR(memory[:page+1], 0)
	wantErr(t, err, ucs.ErrNoMemory, "two pages more")
	wantErr(t, err, syscall.ENOMEM, "two pages more")
	last := must(pd.RegMR(memory[:page], 0))(t)
	wantErr(t, first.Rereg(verbs.ReregTranslation, nil, memory[:3*page], 0), syscall.ENOMEM, "a third page")
	check(t, first.Close())
	check(t, last.Rereg(verbs.ReregTranslation, nil, memory[:3*page], 0))
	if now, most := r.kernel.Pinned(); now != 4*page || most != 4*page {
		t.Errorf("%d bytes, %d at most", now, most)
	}
	r.kernel.SetMemLock(5 * page)
	must(pd.RegMR(memory[:page], 0))(t)
	_, err = pd.RegMR(memory[:page], 0)
	wantErr(t, err, ucs.ErrNoMemory, "a sixth page")
	r.kernel.SetMemLock(0)
	must(pd.RegMR(memory, 0))(t)
	check(t, c.Close())
	check(t, arena.Unmap(memory))
	if now, most := r.kernel.Pinned(); now != 0 || most != 25*page {
		t.Errorf("%d bytes, %d at most", now, most)
	}
}

// TestResolve checks that a neighbor which the kernel does not find cannot be addressed.
func TestResolve(t *testing.T) {
	r := oneRig(t, verbstest.Config{})
	a, b := r.newSide(t, verbs.RC), r.other().newSide(t, verbs.RC)
	away := r.local.To(r.peer.gid)
	r.kernel.SetResolve(func(from, to [16]byte) syscall.Errno {
		if from != r.gid {
			t.Errorf("from %v", from)
		}
		if to == r.peer.gid {
			return syscall.ETIMEDOUT
		}
		return 0
	})
	_, err := a.pd.CreateAH(&away)
	wantErr(t, err, syscall.ETIMEDOUT, "an address handle")
	home := r.path()
	must(a.pd.CreateAH(&home))(t)
	a.toInit(t)
	at := &verbs.QPAttr{AH: away, PathMTU: r.mtu, DestQPN: b.qp.QPN()}
	wantErr(t, a.qp.Connect(at), syscall.ETIMEDOUT, "a queue pair")
	r.kernel.SetResolve(nil)
	must(a.pd.CreateAH(&away))(t)
	a.toRTS(t, b)
	b.up(t, a)
	a.works(t, b, 1)
}

// TestLastWQE checks that the event is raised once, only if configured, and only for a queue pair
// with a shared receive queue.
func TestLastWQE(t *testing.T) {
	for _, with := range []bool{true, false} {
		r := oneRig(t, verbstest.Config{LastWQE: with})
		s := r.newSide(t, verbs.RC)
		srq := must(s.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 7, MaxSGE: 1}))(t)
		own := s.qp
		s.newQP(t, verbs.RC, func(a *verbs.QPInitAttr) { a.SRQ = srq })
		for _, qp := range []*verbs.QP{own, s.qp, s.qp} {
			check(t, qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
		}
		e, ok, err := s.ctx.TryAsyncEvent()
		if err != nil || ok != with || ok && (e.QP != s.qp || e.String() != "QP last WQE reached, QP "+fmt.Sprintf("%#x", s.qp.QPN())) {
			t.Errorf("%v, %v: %v", e, ok, err)
		}
		if e, ok, err := s.ctx.TryAsyncEvent(); ok || err != nil {
			t.Errorf("%v: %v", e, err)
		}
	}
}

// TestHeaders receives datagrams on devices that write different headers.
func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		grh  verbstest.GRH
		gid  int // GID index: 0 is IPv6, 1 is IPv4
		left int // bytes that are not written
	}{
		{verbstest.GRHFull, 0, 0}, {verbstest.GRHFull, 1, 0}, {verbstest.GRHHalf, 0, 0},
		{verbstest.GRHHalf, 1, 20}, {verbstest.GRHNone, 0, 40}, {verbstest.GRHNone, 1, 40},
	} {
		r := oneRig(t, verbstest.Config{GRH: c.grh, WCSL: 6}).by(t, 1, c.gid)
		from := r.peer.by(t, 1, c.gid)
		a, b := from.newSide(t, verbs.UD), r.newSide(t, verbs.UD)
		a.up(t, nil)
		b.up(t, nil)
		path := from.local.To(r.gid)
		ah := must(a.pd.CreateAH(&path))(t)
		for _, first := range []int{1, 20, 40, 50} { // split header and data into two elements
			for i := range 100 {
				a.buf[i], b.buf[i] = byte(i), 0xee
			}
			b.recv(t, verbs.RecvWR{SGList: []verbs.SGE{b.mr.SGE(0, first), b.mr.SGE(first, 100)}})
			a.send(t, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 30), AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey})
			a.done(t, 0, verbs.WCSend)
			wc := b.done(t, 0, verbs.WCRecv)
			if wc.ByteLen != 70 || wc.SL != 6 || wc.Flags&verbs.WCGRH == 0 != (c.left == 40) {
				t.Errorf("%+v: %+v", c, wc)
			}
			left := 0
			for left < 40 && b.buf[left] == 0xee {
				left++
			}
			if left != c.left || !bytes.Equal(b.buf[40:70], a.buf[:30]) || b.buf[70] != 0xee {
				t.Errorf("%+v: % x", c, b.buf[:72])
			}
		}
	}
}

// TestConfigs checks that invalid configurations are refused at once.
func TestConfigs(t *testing.T) {
	for what, c := range map[string]verbstest.Config{
		"ports":    {Ports: make([]verbstest.Port, 3)},
		"MTU 6":    {Ports: []verbstest.Port{{MTU: 6}}},
		"width 3":  {Ports: []verbstest.Port{{Width: 3}}},
		"257 GIDs": {Ports: []verbstest.Port{{GIDs: make([]verbstest.GID, 257)}}},
		"limits":   {Limits: verbstest.Limits{Inline: 513}},
	} {
		func() {
			defer func() {
				if e, ok := recover().(string); !ok || !strings.Contains(e, what) {
					t.Errorf("%s: %v", what, e)
				}
			}()
			verbstest.NewFabric().Add(c)
		}()
	}
}
