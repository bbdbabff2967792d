//go:build linux

package ud_test

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// TestAttributes compares the attributes with those that both releases of C UCX have for a port
// like the simulated one: soft-RoCE on virtual Ethernet. The first three numbers are from C UCX
// worker addresses (packed as float32), the limits from ucx_info -d (1.22.0).
func TestAttributes(t *testing.T) {
	for _, tc := range []struct {
		mtu       uint8
		bandwidth string
		most      int
	}{{5, "cece914e", 4088}, {3, "15f9884e", 1016}} {
		f := fixture(t, network(t, verbstest.Config{Ports: []verbstest.Port{{MTU: tc.mtu}}}))
		a := f.Open(t).Iface.Attr()
		packed := func(v float64) string {
			b := math.Float32bits(float32(v))
			return hex.EncodeToString([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
		}
		if got := packed(a.Perf.Overhead); got != "5c7ce133" {
			t.Errorf("overhead %v is %s", a.Perf.Overhead, got)
		}
		if got := packed(a.Perf.Bandwidth(1)); got != tc.bandwidth {
			t.Errorf("bandwidth %v is %s, want %s", a.Perf.Bandwidth(1), got, tc.bandwidth)
		}
		if got := packed(a.Perf.Latency.C); got != "1da57935" || a.Perf.Latency.M != 0 {
			t.Errorf("latency %v is %s", a.Perf.Latency, got)
		}
		if a.AM.MaxBcopy != tc.most || a.AM.MaxZcopy != tc.most || a.AM.MaxShort != 88 || a.AM.MaxIOV != 5 || a.AM.MaxZcopyHdr != tc.most-96 {
			t.Errorf("limits %+v", a.AM)
		}
		const want = uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfaceAMZcopy | uct.IfacePending | uct.IfaceConnectToIface |
			uct.IfaceConnectToEP | uct.IfaceEpCheck | uct.IfaceCBSync | uct.IfaceCBAsync | uct.IfaceErrHandlePeerFail | uct.IfaceInterNode
		const never = uct.IfacePutShort | uct.IfacePutBcopy | uct.IfacePutZcopy | uct.IfaceGetBcopy | uct.IfaceGetZcopy | uct.IfaceAtomicDevice
		if !a.Flags.Has(want) || a.Flags&never != 0 {
			t.Errorf("flags %#x", uint64(a.Flags))
		}
		if a.MaxEndpoints != uct.Unlimited || a.IfaceAddrLen != 3 || a.EpAddrLen != 6 || a.DeviceAddrLen != 17+min(1, 5-int(tc.mtu)) {
			t.Errorf("%+v", a)
		}
	}
}

// TestMaxEndpoints checks that a setting determines the announced number of endpoints.
func TestMaxEndpoints(t *testing.T) {
	for _, name := range []string{"UD_MAX_NUM_EPS", "UD_VERBS_MAX_NUM_EPS"} {
		f := fixture(t, network(t, verbstest.Config{Ports: []verbstest.Port{{}}}), name, "100")
		if got := f.Open(t).Iface.Attr().MaxEndpoints; got != 100 {
			t.Errorf("%s: %d endpoints", name, got)
		}
	}
}
