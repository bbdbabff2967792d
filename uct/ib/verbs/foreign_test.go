//go:build linux

package verbs_test

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// testForeign combines objects of two Contexts, which must be refused: the handles that the kernel
// knows objects by mean other objects in another Context.
func testForeign(t *testing.T, r *rig) {
	a, b := r.newSide(t, verbs.RC), r.newSide(t, verbs.RC)
	srq := must(b.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1}))(t)
	for what, attr := range map[string]verbs.QPInitAttr{
		"completion queue of sends":    {SendCQ: b.cq, RecvCQ: a.cq},
		"completion queue of receives": {SendCQ: a.cq, RecvCQ: b.cq},
		"shared receive queue":         {SendCQ: a.cq, RecvCQ: a.cq, SRQ: srq},
	} {
		attr.Type, attr.Cap = verbs.RC, verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}
		_, err := a.pd.CreateQP(&attr)
		wantErr(t, err, ucs.ErrInvalidParam, what)
	}
	_, err := a.ctx.CreateCQ(4, b.cq.Channel(), 0)
	wantErr(t, err, ucs.ErrInvalidParam, "a completion channel")
	wantErr(t, a.mr.Rereg(verbs.ReregPD, b.pd, nil, 0), ucs.ErrInvalidParam, "a domain")
}
