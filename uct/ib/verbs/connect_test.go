//go:build linux

package verbs_test

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

func TestDefaultGID(t *testing.T) {
	r := fakeRig(t)
	c := r.open(t)
	for _, want := range []int{1, 2, 0} { // 127.0.0.1, ::1, fe80::
		g, err := c.DefaultGID(1)
		if err != nil || g.Index != want || g.Port != 1 {
			t.Errorf("%+v, want that of index %d: %v", g, want, err)
		}
		r.kernel.SetGID(want, verbs.GID{})
	}
	_, err := c.DefaultGID(1)
	wantErr(t, err, ucs.ErrNoElem, "a port without a GID")
	_, err = c.DefaultGID(2)
	wantErr(t, err, ucs.ErrNoElem, "another port")
}

// testConnect connects queue pairs and checks the attributes that they were given.
func testConnect(t *testing.T, r *rig) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		s := r.newSide(t, typ)
		a := verbs.QPAttr{Port: 1, Access: fullAccess, QKey: qkey, PathMTU: r.mtu, AH: r.local.To(r.gid), DestQPN: s.qp.QPN(),
			RQPSN: 5, SQPSN: 6, MaxRdAtomic: 2, MaxDestRdAtomic: 3, MinRNRTimer: 4, Timeout: 14, RetryCount: 5, RNRRetry: 6}
		wantErr(t, s.qp.Connect(&a), ucs.ErrInvalidParam, "from RESET")
		check(t, s.qp.Init(&a))
		wantErr(t, s.qp.Init(&a), ucs.ErrInvalidParam, "from INIT")
		if typ != verbs.UD {
			far := a
			far.AH = verbs.GIDEntry{GID: r.gid, Port: 1, Index: 256}.To(r.gid)
			wantErr(t, s.qp.Connect(&far), ucs.ErrInvalidParam, "from GID 256")
		}
		check(t, s.qp.Connect(&a))
		if q := s.qp; q.PD() != s.pd || q.SendCQ() != s.cq || q.RecvCQ() != s.cq || q.SRQ() != nil || s.mr.PD() != s.pd || s.cq.Context() != s.ctx {
			t.Errorf("%v: made of other objects than it was given", typ)
		}
		if a.State != verbs.QPReset || s.qp.State() != verbs.QPRTS {
			t.Errorf("%v: the argument says %v, the queue pair is in %v", typ, a.State, s.qp.State())
		}
		all := verbs.QPAttrState | verbs.QPAttrAH | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN | verbs.QPAttrSQPSN |
			verbs.QPAttrMaxRdAtomic | verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer | verbs.QPAttrTimeout |
			verbs.QPAttrRetryCount | verbs.QPAttrRNRRetry
		g := must(s.qp.Query(all))(t)
		if g.SQPSN != 6 || typ != verbs.UD && (g.RQPSN != 5 || g.PathMTU != r.mtu || g.AH.DGID != r.gid || g.DestQPN != s.qp.QPN()) ||
			typ == verbs.RC && (g.Timeout != 14 || g.RetryCount != 5 || g.RNRRetry != 6 || g.MinRNRTimer != 4) {
			t.Errorf("%v: found %+v", typ, g)
		}
	}
	pd := must(r.open(t).AllocPD())(t)
	_, err := pd.CreateAH(&verbs.AHAttr{})
	wantErr(t, err, ucs.ErrInvalidParam, "an address without a port")
}
