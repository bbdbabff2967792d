//go:build linux

package verbs_test

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestSysfsAndQueries compares sysfs with the queries of the devices.
func TestSysfsAndQueries(t *testing.T) {
	deviceRig(t)
	list := must(devices())(t)
	for i := range list {
		d := &list[i]
		c, err := d.Open()
		if err != nil {
			t.Logf("%s: %v", d.Name, err) // its driver is not supported
			continue
		}
		a := must(c.QueryDevice())(t)
		if a.NodeGUID != d.NodeGUID || a.SysImageGUID != d.SysImageGUID || a.Ports != len(d.Ports) || d.Firmware != "" && a.Firmware != d.Firmware {
			t.Errorf("%+v, sysfs %+v", a, d)
		}
		if n := d.NodeType.Transport(); n != verbs.TransportIB {
			t.Errorf("%s speaks %v", d.Name, n)
		}
		var want []verbs.GIDEntry
		for _, p := range d.Ports {
			q := must(c.QueryPort(p.Num))(t)
			if q.State != p.State || q.LinkLayer != p.LinkLayer || q.LID != p.LID || q.SMLID != p.SMLID || q.PKeyTableLen != len(p.PKeys) {
				t.Errorf("%+v, sysfs %+v", q, p)
			}
			// Gb/s per lane, and number of lanes, as the kernel counts them.
			speed := map[uint32]float64{1: 2.5, 2: 5, 4: 10, 8: 10, 16: 14, 32: 25, 64: 50, 128: 100, 256: 200}[q.ActiveSpeed]
			lanes := map[uint8]float64{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[q.ActiveWidth]
			if p.Rate != speed*lanes || p.Rate == 0 {
				t.Errorf("%s: speed %d, width %d, sysfs %s", d.Name, q.ActiveSpeed, q.ActiveWidth, p.RateText)
			}
			for _, g := range p.GIDs {
				e := verbs.GIDEntry{GID: g.GID, Index: g.Index, Port: p.Num, Type: g.Type}
				if g.NetDev != "" {
					e.IfIndex = must(net.InterfaceByName(g.NetDev))(t).Index
				}
				want = append(want, e)
			}
		}
		if diff := cmp.Diff(want, must(c.QueryGIDTable())(t)); diff != "" {
			t.Errorf("GIDs (-sysfs +kernel):\n%s", diff)
		}
		check(t, c.Close())
	}
}
