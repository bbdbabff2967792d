//go:build linux

package ud_test

import (
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// FuzzConnect connects endpoints to arbitrary addresses, on an Ethernet port and on an InfiniBand
// port. The connections may be refused, or lead nowhere, and must leave nothing behind.
func FuzzConnect(f *testing.F) {
	for _, b := range ibtest.Addresses() {
		f.Add(b, []byte{1, 0, 0}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, byte(0))
		f.Add(b, []byte{0xff, 0xff, 0xff}, []byte{17, 0, 0, 0, 0, 0}, byte(255))
	}
	f.Add([]byte{0, '0', '0'}, []byte{}, []byte("000000"), byte(255))
	fuzztest.Run(f, func(t *testing.T, dev, iface, ep []byte, path byte) {
		for _, ib := range []bool{false, true} {
			net := network(t, port(verbstest.Port{InfiniBand: ib, LMC: 2}))
			x := fixture(t, net, "IB_NUM_PATHS", "9", "IB_ROCE_REACHABILITY_MODE", "all")
			h := x.Open(t)
			h.Iface.Reachable(uct.ReachableParams{DeviceAddr: dev, IfaceAddr: iface})
			var eps []uct.Endpoint
			if e, err := h.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: dev, IfaceAddr: iface, PathIndex: int(int8(path))}); err == nil {
				eps = append(eps, e)
			}
			if e, err := h.Iface.NewEndpoint(uct.EndpointParams{PathIndex: int(path % 9)}); err == nil {
				eps = append(eps, e)
				if e.(uct.Paired).ConnectToEP(dev, iface, ep) == nil {
					e.AMShort(1, 2, nil, 0, nil)
				}
			}
			for _, e := range eps {
				e.(uct.Paired).IsConnectedTo(dev, iface, ep)
				e.(uct.Paired).IsConnectedTo(dev, iface, nil)
			}
			ucttest.Settle(h)
			for _, e := range eps {
				ud.Abort(e)
				e.Close()
			}
			ucttest.Settle(h)
			// The last request of each endpoint may still hold an address handle and a
			// buffer. The next packet of any endpoint releases them.
			if slots, limbo := ud.Held(h.Iface); slots > len(eps) || limbo > 2*len(eps) {
				t.Errorf("%d slots, %d things in limbo", slots, limbo)
			}
			self := h.NewEndpoint(t, uct.EndpointParams{}).(uct.Paired)
			check(t, self.ConnectToEP(h.Iface.DeviceAddress(), h.Iface.Address(), rigtest.Must(self.Address())(t)))
			got := h.Collect(t, 1)
			check(t, self.(uct.Endpoint).AMShort(1, 2, nil, 0, nil))
			got.Wait(t, 1, h)
			c := ucttest.NewCompletion(1)
			if err := self.(uct.Endpoint).Flush(uct.FlushLocal, &c.Completion); err == ucs.InProgress {
				ucttest.Until(t, "the acknowledgement", func() bool { return c.Fired > 0 }, h)
			}
			if slots, limbo := ud.Held(h.Iface); slots != 0 || limbo != 0 {
				t.Errorf("%d slots, %d things in limbo after another packet", slots, limbo)
			}
		}
	})
}
