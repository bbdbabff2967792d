//go:build linux

package verbs_test

import (
	"slices"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestListed lists and opens simulated devices like those of a kernel, and compares sysfs with the
// queries.
func TestListed(t *testing.T) {
	ucttest.NoLeaks(t)
	n := verbstest.NewFabric()
	n.Add(verbstest.Config{})
	gids := gidsOf("10.0.0.1", "::", "2001:db8::1")
	gids[0].V1, gids[2].NetDev, gids[2].IfIndex = true, "eth7", 7
	n.Add(verbstest.Config{Name: "mlx5_0", NodeGUID: 0x1122334455667788, Ports: []verbstest.Port{
		{GIDs: gids, MTU: 3, Width: 2, Speed: 32, PKeys: []uint16{0xffff, 0x8001}, Down: true},
		{InfiniBand: true, LID: 0x123, LMC: 1, Speed: 1},
	}})
	root := t.TempDir()
	check(t, n.WriteSysfs(root))
	devices := must(verbs.Devices(root))(t)
	if len(devices) != 2 || devices[0].Name != "rxe0" || devices[1].Name != "mlx5_0" || devices[1].Uverbs != "uverbs1" ||
		devices[1].NodeGUID != 0x1122334455667788 || devices[0].NodeType != verbs.NodeCA {
		t.Fatalf("%+v", devices)
	}
	rates := []string{"10 Gb/sec (1X FDR10)", "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)"}
	for i := range devices {
		d := &devices[i]
		k := n.Find(d.Name)
		if k == nil || k != n.Find(d.Uverbs) || k != n.Devices()[i] {
			t.Fatalf("%s is %v", d.Name, k)
		}
		c := must(verbs.NewContext(k.Open(), d.ABIVersion))(t)
		a := must(c.QueryDevice())(t)
		if a.NodeGUID != d.NodeGUID || a.Ports != len(d.Ports) {
			t.Errorf("%+v, listed %+v", a, d)
		}
		var listed []verbs.GIDEntry
		for _, p := range d.Ports {
			q := must(c.QueryPort(p.Num))(t)
			if q.State != p.State || q.LinkLayer != p.LinkLayer || q.LID != p.LID || q.PKeyTableLen != len(p.PKeys) || p.RateText != rates[0] {
				t.Errorf("%+v, listed %+v", q, p)
			}
			rates = rates[1:]
			for _, g := range p.GIDs {
				e := verbs.GIDEntry{GID: g.GID, Index: g.Index, Port: p.Num, Type: g.Type}
				if g.NetDev != "" {
					e.IfIndex = 7
				}
				listed = append(listed, e)
			}
		}
		if table := must(c.QueryGIDTable())(t); !slices.Equal(table, listed) {
			t.Errorf("%+v, listed %+v", table, listed)
		}
		check(t, c.Close())
	}
	if p := devices[1].Ports[0]; p.PKeys[1] != 0x8001 || p.GIDs[0].NetDev != "" || p.GIDs[1].NetDev != "eth7" || p.PhysState != "Disabled" {
		t.Errorf("%+v", p)
	}
	n.Devices()[1].SetLink(1, true)
	n.Devices()[1].SetPortGID(1, 3, verbstest.IP("10.0.0.7"))
	if p := n.Devices()[1].Config().Ports[0]; p.Down || p.GIDs[3] != verbstest.IP("10.0.0.7") || p.MTU != 3 || len(p.GIDs) != 16 {
		t.Errorf("%+v", p)
	}
	if n.Find("rxe9") != nil {
		t.Error("a device there is not")
	}
}
