//go:build linux

package verbs_test

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// testClosed uses closed objects. Their handles are reused by the kernel for new objects, which
// must not be affected.
func testClosed(t *testing.T, r *rig) {
	s := r.newSide(t, verbs.RC)
	type object interface{ Close() error }
	path := r.path()
	cq := must(s.ctx.CreateCQ(4, nil, 0))(t)
	for what, create := range map[string]func() object{
		"PD":  func() object { return must(s.ctx.AllocPD())(t) },
		"CQ":  func() object { return must(s.ctx.CreateCQ(4, nil, 0))(t) },
		"MR":  func() object { return must(s.pd.RegMR(make([]byte, 10), fullAccess))(t) },
		"MW":  func() object { return must(s.pd.AllocMW())(t) },
		"AH":  func() object { return must(s.pd.CreateAH(&path))(t) },
		"SRQ": func() object { return must(s.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1}))(t) },
		"QP": func() object {
			return must(s.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}}))(t)
		},
	} {
		old := create()
		check(t, old.Close())
		next := create()
		wantErr(t, old.Close(), ucs.ErrInvalidParam, what+" closed twice")
		if err := next.Close(); err != nil {
			t.Errorf("%s: closing one twice closed the next: %v", what, err)
		}
	}

	old := s.qp
	s.up(t, nil, func(a *verbs.QPAttr) { a.DestQPN = old.QPN() })
	ah := must(s.pd.CreateAH(&path))(t)
	check(t, ah.Close())
	check(t, old.Close())
	s.newQP(t, verbs.RC)
	if err := old.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState); err == nil || s.state(t) != verbs.QPReset {
		t.Errorf("changing a closed queue pair: %v, and the next is in %v", err, s.state(t))
	}
	_, err := old.PostSend([]verbs.SendWR{{Opcode: verbs.WRSend}})
	wantErr(t, err, ucs.ErrInvalidParam, "sending with what is closed")
	_, err = old.PostRecv([]verbs.RecvWR{{}})
	wantErr(t, err, ucs.ErrInvalidParam, "receiving with what is closed")
	check(t, cq.Close())
	if n := cq.Poll(make([]verbs.WC, 1)); n != 0 {
		t.Errorf("%d completions of a closed queue", n)
	}
	ud := must(s.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.UD, SendCQ: s.cq, RecvCQ: s.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}))(t)
	a := verbs.QPAttr{Port: 1, QKey: qkey}
	check(t, ud.Init(&a))
	check(t, ud.Connect(&a))
	_, err = ud.PostSend([]verbs.SendWR{{Opcode: verbs.WRSend, AH: ah, RemoteQPN: 1}})
	wantErr(t, err, ucs.ErrInvalidParam, "sending to a closed address")
	ch := must(s.ctx.CreateCompChannel())(t)
	check(t, ch.Close())
	if _, err := s.ctx.CreateCQ(4, ch, 0); err == nil {
		t.Error("a completion queue with a closed channel")
	}

	check(t, s.ctx.Close())
	wantErr(t, s.qp.Close(), ucs.ErrInvalidParam, "a queue pair of a closed device")
	if _, err := s.ctx.AllocPD(); err == nil {
		t.Error("a domain of a closed device")
	}
	if _, err := s.ctx.QueryPort(1); err == nil {
		t.Error("a port of a closed device")
	}
}

// testUnread closes or resets queue pairs with unread completions in the queues. The completions
// must remain unchanged, and the shared receives that they report must count as free.
func testUnread(t *testing.T, r *rig) {
	const n = 6
	for _, c := range []struct {
		name          string
		shared, reset bool
	}{{"closed", false, false}, {"closed, shared", true, false}, {"reset", false, true}, {"reset, shared", true, true}} {
		var a, b *side
		var srq *verbs.SRQ
		post := func(wr []verbs.RecvWR) (int, error) { return b.qp.PostRecv(wr) }
		if c.shared {
			a, b, srq = r.sharing(t, verbs.SRQInitAttr{MaxWR: 2 * n, MaxSGE: 1})
			post = srq.PostRecv
		} else {
			a, b = r.pair(t, verbs.RC)
		}
		fill(a.buf, 1)
		recv := func(id uint64) {
			t.Helper()
			if k, err := post([]verbs.RecvWR{{ID: id, SGList: b.at(100*int(id), 100)}}); k != 1 || err != nil {
				t.Fatalf("%s: receive %d: %v", c.name, id, err)
			}
		}
		send := func(id uint64) {
			t.Helper()
			a.send(t, verbs.SendWR{ID: id, Opcode: verbs.WRSendWithImm, Imm: uint32(id), Flags: verbs.SendSignaled, SGList: a.at(int(id), 90)})
		}
		for i := range uint64(n) {
			recv(i)
		}
		for i := range uint64(n) {
			send(i)
		}
		a.poll(t, n) // the sender's completions show that all has arrived
		was := b.qp.QPN()
		check(t, a.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState))
		if c.reset {
			check(t, b.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState))
		} else {
			check(t, b.qp.Close())
			b.newQP(t, verbs.RC, func(q *verbs.QPInitAttr) { q.SRQ = srq })
		}
		a.up(t, b)
		b.up(t, a)
		for i, wc := range append(b.poll(t, 1), b.poll(t, n-1)...) {
			if wc.ID != uint64(i) || wc.Status != verbs.WCSuccess || wc.ByteLen != 90 || wc.Imm != uint32(i) || wc.QPN != was ||
				!bytes.Equal(b.buf[100*i:100*i+90], a.buf[i:i+90]) {
				t.Errorf("%s: %+v of message %d, or wrong bytes", c.name, wc, i)
			}
		}
		for i := range uint64(2 * n) { // all entries are free
			recv(i)
		}
		for i := range uint64(2 * n) {
			send(i)
			a.done(t, i, verbs.WCSend)
			b.done(t, i, verbs.WCRecv)
		}
	}
}
