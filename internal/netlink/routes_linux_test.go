package netlink

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/internal/netlink/netlinktest"
)

func route(family, bits byte, attrs ...netlinktest.Attr) []byte {
	rt := make([]byte, unix.SizeofRtMsg)
	rt[0], rt[1] = family, bits
	return netlinktest.Message(unix.RTM_NEWROUTE, rt, attrs...)
}

func TestParseRoutes(t *testing.T) {
	var dump []byte
	for _, m := range [][]byte{
		route(unix.AF_INET, 0, netlinktest.U32(unix.RTA_OIF, 2), netlinktest.IP(unix.RTA_GATEWAY, "192.0.2.1")),
		route(unix.AF_INET, 24, netlinktest.IP(unix.RTA_DST, "192.0.2.0"), netlinktest.U32(unix.RTA_OIF, 2)),
		route(unix.AF_INET, 16, netlinktest.IP(unix.RTA_DST, "10.1.0.0"), netlinktest.U32(unix.RTA_OIF, 3)),
		route(unix.AF_INET, 8, netlinktest.IP(unix.RTA_DST, "10.0.0.0")),                        // several next hops: no device
		route(unix.AF_INET, 8, netlinktest.U32(unix.RTA_OIF, 4)),                                // no destination
		route(unix.AF_INET, 40, netlinktest.IP(unix.RTA_DST, "9.0.0.0"), netlinktest.U32(4, 5)), // absurd length
		route(unix.AF_INET6, 64, netlinktest.IP(unix.RTA_DST, "fd00::"), netlinktest.U32(unix.RTA_OIF, 2)),
		route(unix.AF_INET6, 128, netlinktest.IP(unix.RTA_DST, "fd00::2"), netlinktest.U32(unix.RTA_OIF, 2)),
	} {
		dump = append(dump, m...)
	}
	var table Routes
	if err := table.parse(dump); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		device int
		ip     string
		bits   int
	}{
		{2, "192.0.2.9", 24}, {2, "1.2.3.4", 0}, {3, "10.1.2.3", 16}, {3, "10.2.0.1", -1},
		{2, "fd00::2", 128}, {2, "fd00::3", 64}, {2, "fd01::3", -1}, {3, "fd00::2", -1}, {9, "1.2.3.4", -1},
	} {
		if got := table.Match(c.device, netip.MustParseAddr(c.ip)); got != c.bits {
			t.Errorf("device %d to %s: prefix of %d, want %d", c.device, c.ip, got, c.bits)
		}
	}
	if !table.Best(3, netip.MustParseAddr("10.1.2.3")) || table.Best(2, netip.MustParseAddr("10.1.2.3")) {
		t.Error("the longest prefix does not win")
	}
	for n := range len(dump) {
		(&Routes{}).parse(dump[:n]) // must not panic
	}
}

func TestReadRoutes(t *testing.T) {
	table, err := ReadRoutes()
	if err != nil {
		t.Fatal(err)
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	home := netip.MustParseAddr("127.0.0.1")
	if !table.Best(lo.Index, home) {
		t.Error("lo has no route to 127.0.0.1")
	}
	if !table.Local(home) || table.Local(netip.MustParseAddr("192.0.2.1")) {
		t.Error("which addresses are of this machine is not known")
	}
}

// FuzzRoutes parses arbitrary bytes as an answer of the kernel. The routes that result must be
// valid.
func FuzzRoutes(f *testing.F) {
	f.Add(route(unix.AF_INET, 24, netlinktest.IP(unix.RTA_DST, "192.0.2.0"), netlinktest.U32(unix.RTA_OIF, 2)))
	f.Add(route(unix.AF_INET6, 64, netlinktest.U32(unix.RTA_OIF, 2), netlinktest.IP(unix.RTA_DST, "fd00::")))
	f.Add(route(unix.AF_INET, 0, netlinktest.U32(unix.RTA_OIF, 2)))
	fuzztest.Run(f, func(t *testing.T, dump []byte) {
		var table Routes
		if table.parse(dump) != nil {
			return
		}
		for device, routes := range table.byDevice {
			for _, p := range routes {
				ip := p.Addr()
				if device < 0 || !p.IsValid() || table.Match(device, ip) < p.Bits() {
					t.Errorf("device %d, %v: %d", device, p, table.Match(device, ip))
				}
			}
		}
		for _, p := range table.local {
			if !table.Local(p.Addr()) {
				t.Errorf("%v", p)
			}
		}
	})
}
