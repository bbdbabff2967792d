//go:build linux

package rc_test

import (
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// FuzzConnect connects an endpoint to arbitrary addresses, on an Ethernet port and on an InfiniBand
// port. The connection may be refused, or fail, and must leave nothing behind.
func FuzzConnect(f *testing.F) {
	for _, b := range ibtest.Addresses() {
		f.Add(b, []byte{}, []byte{0, 17, 0, 0}, byte(0))
		f.Add(b, []byte{0}, []byte{1, 0xff, 0xff, 0xff, 0xff}, byte(255))
	}
	fuzztest.Run(f, func(t *testing.T, dev, iface, ep []byte, path byte) {
		for _, ib := range []bool{false, true} {
			r := newRig(t, verbstest.Port{InfiniBand: ib, LMC: 2})
			x := fixture(t, r, "IB_NUM_PATHS", "9", "IB_ROCE_REACHABILITY_MODE", "all", "RC_TIMEOUT", "1us", "RC_RETRY_COUNT", "0")
			h := x.Open(t)
			h.Iface.Reachable(uct.ReachableParams{DeviceAddr: dev, IfaceAddr: iface})
			e, err := h.Iface.NewEndpoint(uct.EndpointParams{PathIndex: int(int8(path))})
			if err != nil {
				continue
			}
			if e.(uct.Paired).ConnectToEP(dev, iface, ep) == nil {
				e.AMShort(1, 2, nil, 0, nil)
			}
			e.(uct.Paired).IsConnectedTo(dev, iface, ep)
			e.(uct.Paired).IsConnectedTo(dev, iface, nil)
			ucttest.Settle(h)
			e.Close()
			ucttest.Settle(h)
		}
	})
}
