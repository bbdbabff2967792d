//go:build linux

package verbs_test

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// testClosed uses what is closed. The kernel gives its handles to new objects,
// which must not suffer.
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
