//go:build linux

package tcp

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/netlink"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// Device addresses of C UCX, taken from packed worker addresses of both releases.
const (
	devEth0      = "0002c0000202"
	devEth0v6    = "000afd000000000000000000000000000002"
	devLo1131    = "010209118974af6c94f8f9ffffef00000000"
	devLo1220    = "010209118974af6c94f8f9ffffef"
	devLo1131old = "010209118974af6c9478" + "deadbeefdeadbeef" // no namespace: random bytes
	devLo1220old = "010209118974af6c9478" + "00000000"
	devLoBare    = "010209118974af6c9478"
)

func TestParseDeviceAddr(t *testing.T) {
	const system = 0x78946caf74891109
	ns := deviceAddr{loopback: true, ip: netip.MustParseAddr("127.0.0.1"), system: system | systemHasNamespace, netns: 0xeffffff9}
	initial := deviceAddr{loopback: true, ip: netip.MustParseAddr("127.0.0.1"), system: system}
	for _, c := range []struct {
		hex  string
		want deviceAddr
	}{
		{devEth0, deviceAddr{ip: netip.MustParseAddr("192.0.2.2")}},
		{devEth0v6, deviceAddr{v6: true, ip: netip.MustParseAddr("fd00::2")}},
		{"0002a9fe0102", deviceAddr{ip: netip.MustParseAddr("169.254.1.2")}}, // 1.13.1 uses them
		{devLo1131, ns},
		{devLo1220, ns},
		{devLo1131old, initial},
		{devLo1220old, initial},
		{devLoBare, initial},
	} {
		d, err := parseDeviceAddr(ucttest.Unhex(t, c.hex))
		if err != nil {
			t.Errorf("%s: %v", c.hex, err)
			continue
		}
		if d.ip != c.want.ip || d.v6 != c.want.v6 || d.loopback != c.want.loopback || d.system != c.want.system {
			t.Errorf("%s: %+v, want %+v", c.hex, d, c.want)
		}
		if d.loopback && !d.sameNode(&c.want) {
			t.Errorf("%s is not taken for the same node", c.hex)
		}
	}
}

func TestPackDeviceAddr(t *testing.T) {
	for _, h := range []string{devEth0, devEth0v6, devLo1131, devLo1220old} {
		d, err := parseDeviceAddr(ucttest.Unhex(t, h))
		if err != nil {
			t.Fatal(err)
		}
		want := ucttest.Unhex(t, h)
		if d.loopback {
			// Both releases parse the wide form.
			want = append(want, make([]byte, devLoopbackLen-len(want))...)
		}
		if got := d.pack(); !bytes.Equal(got, want) {
			t.Errorf("%s packs to %x, want %x", h, got, want)
		}
	}
}

func TestParseDeviceAddrRefuses(t *testing.T) {
	for _, h := range []string{
		"", "00", "0002", "0001c0000202", "000200000000000000", "0002c00002", "0002c000020202",
		"000ac0000202", "000a" + strings.Repeat("00", 15), "000a" + strings.Repeat("00", 17),
		"01", "0102", "0102" + strings.Repeat("00", 7), "0102" + strings.Repeat("00", 9),
		"0102" + strings.Repeat("00", 13), "0102" + strings.Repeat("00", 17), "0101" + strings.Repeat("00", 8),
		"000200000000", "0002e0000001", // unspecified, multicast
		"000a" + strings.Repeat("00", 16), "000aff02" + strings.Repeat("00", 13) + "01",
		"000a" + strings.Repeat("00", 10) + "ffff7f000001", // IPv4 mapped into IPv6
		"000afe80" + strings.Repeat("00", 13) + "01",       // link-local, without a device
	} {
		if _, err := parseDeviceAddr(ucttest.Unhex(t, h)); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("%q: %v", h, err)
		}
	}
}

func TestSameNode(t *testing.T) {
	parse := func(h string) *deviceAddr {
		d, err := parseDeviceAddr(ucttest.Unhex(t, h))
		if err != nil {
			t.Fatal(err)
		}
		return &d
	}
	other := strings.Replace(devLo1220, "f9ffffef", "01000000", 1)
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{devLo1131, devLo1220, true},
		{devLo1131old, devLoBare, true},
		{devLo1220, devLoBare, false}, // one has a namespace
		{devLo1220, other, false},
		{devLoBare, "0102" + "0011223344556677", false},
	} {
		if got := parse(c.a).sameNode(parse(c.b)); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

func TestReachable(t *testing.T) {
	lo := newHost(t, "")
	self := uct.ReachableParams{DeviceAddr: lo.iface.DeviceAddress(), IfaceAddr: lo.iface.Address()}
	if err := lo.iface.Reachable(self); err != nil {
		t.Errorf("lo cannot reach itself: %v", err)
	}
	for _, h := range []string{devEth0, devEth0v6, devLoBare[:4] + "0011223344556677", "", "00"} {
		err := lo.iface.Reachable(uct.ReachableParams{DeviceAddr: ucttest.Unhex(t, h)})
		if !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("lo to %q: %v", h, err)
		}
	}
}

func TestReachableByRoute(t *testing.T) {
	i := &iface{
		index: 2,
		dev:   deviceAddr{ip: netip.MustParseAddr("192.0.2.2")},
		md: &domain{routes: func() (r netlink.Routes) {
			r.Add(2, netip.MustParsePrefix("0.0.0.0/0"))
			r.Add(2, netip.MustParsePrefix("192.0.2.0/24"))
			r.Add(3, netip.MustParsePrefix("10.0.0.0/8"))
			r.Add(3, netip.MustParsePrefix("192.0.2.128/25"))
			return r
		}},
	}
	for _, c := range []struct {
		ip   string
		want bool
	}{
		{"192.0.2.7", true},
		{"8.8.8.8", true},
		{"10.1.2.3", false},    // the other device is a better match
		{"192.0.2.200", false}, // the same
	} {
		dev := (&deviceAddr{ip: netip.MustParseAddr(c.ip)}).pack()
		err := i.Reachable(uct.ReachableParams{DeviceAddr: dev})
		if (err == nil) != c.want {
			t.Errorf("%s: %v", c.ip, err)
		}
	}
}
