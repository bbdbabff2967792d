//go:build linux

package verbs_test

import (
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// These tests check package verbs with a provider that lacks all optional features.

// lackingID is the number of a driver that does not exist in the kernel.
const lackingID = 30

func init() {
	provider.Register(&provider.Provider{Name: "lacking", ID: lackingID, MinABI: 1, MaxABI: 1, Open: func(d provider.Device) (provider.Context, error) {
		d.Driver = abi.RDMA_DRIVER_RXE
		d.File = d.File.(otherDriver).File
		c, err := provider.Find(abi.RDMA_DRIVER_RXE).Open(d)
		return lacking{c}, err
	}})
}

// lacking is soft-RoCE without any of its features.
type lacking struct{ provider.Context }

func (lacking) Lacks(provider.Feature) string { return "nobody has made it" }

// lackingRig returns a device of that provider.
func lackingRig(t *testing.T) *rig {
	t.Helper()
	r := fakeRig(t)
	r.open = func(t *testing.T) *verbs.Context {
		t.Helper()
		c := must(verbs.NewContext(otherDriver{r.kernel.Open(), lackingID}, 1))(t)
		t.Cleanup(func() { check(t, c.Close()) })
		return c
	}
	return r
}

// TestLacks checks that operations which a device lacks are refused with their name and the reason,
// before the kernel is called.
func TestLacks(t *testing.T) {
	r := lackingRig(t)
	a, b := r.pair(t, verbs.RC)
	path := r.path()
	calls := map[provider.Feature][]func() error{
		provider.FeatureUC: {func() error {
			_, err := a.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.UC, SendCQ: a.cq, RecvCQ: a.cq})
			return err
		}},
		provider.FeatureUD: {func() error {
			_, err := a.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.UD, SendCQ: a.cq, RecvCQ: a.cq})
			return err
		}, func() error { _, err := a.pd.CreateAH(&path); return err }},
		provider.FeatureSRQ:      {func() error { _, err := a.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 1}); return err }},
		provider.FeatureEvents:   {func() error { return a.cq.ReqNotify(false) }, func() error { return a.cq.ReqNotify(true) }},
		provider.FeatureResizeCQ: {func() error { return a.cq.Resize(10) }},
		provider.FeatureAtomics: {func() error {
			_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRAtomicCmpAndSwp, SGList: a.at(0, 8)}})
			return err
		}, func() error {
			p := a.qp.Begin()
			p.FetchAdd(1, 0, b.mr.Addr(), b.mr.RKey(), 1)
			return p.Err()
		}},
		provider.FeatureMW: {func() error { _, err := a.pd.AllocMW(); return err }, func() error {
			p := a.qp.Begin()
			p.BindMW(1, 0, verbs.MWBind{})
			return p.Err()
		}, func() error { _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRLocalInv}}); return err },
			func() error { _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRSendWithInv}}); return err }},
	}
	for f := range provider.Features {
		for _, call := range calls[f] {
			err := call()
			wantErr(t, err, ucs.ErrUnsupported, f.String())
			if err == nil || !strings.Contains(err.Error(), f.String()+" with lacking: nobody has made it") {
				t.Errorf("%v: %v", f, err)
			}
		}
		if len(calls[f]) == 0 && f != provider.FeatureResizeSRQ {
			t.Errorf("nobody asks for %v", f)
		}
	}
	a.works(t, b, 1)
}
