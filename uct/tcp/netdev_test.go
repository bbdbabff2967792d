//go:build linux

package tcp

import (
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/netlink/netlinktest"
	"github.com/ucx-go/ucx/uct"
)

func link(index int, name, kind string, arp uint16, flags, mtu uint32) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	le.PutUint16(b[2:], arp)
	le.PutUint32(b[4:], uint32(index))
	le.PutUint32(b[8:], flags)
	attrs := []netlinktest.Attr{{Type: unix.IFLA_IFNAME, Value: append([]byte(name), 0)}, netlinktest.U32(unix.IFLA_MTU, mtu)}
	if kind != "" {
		info := netlinktest.Message(0, nil, netlinktest.Attr{Type: unix.IFLA_INFO_KIND, Value: append([]byte(kind), 0)})
		attrs = append(attrs, netlinktest.Attr{Type: unix.IFLA_LINKINFO | nlaNested, Value: info[unix.SizeofNlMsghdr:]})
	}
	return netlinktest.Message(unix.RTM_NEWLINK, b, attrs...)
}

// nlaNested is NLA_F_NESTED of linux/netlink.h.
const nlaNested = 1 << 15

func address(index int, attrs ...netlinktest.Attr) []byte {
	b := make([]byte, unix.SizeofIfAddrmsg)
	le.PutUint32(b[4:], uint32(index))
	return netlinktest.Message(unix.RTM_NEWADDR, b, attrs...)
}

func TestParseNetdevs(t *testing.T) {
	const up = unix.IFF_UP | unix.IFF_RUNNING
	var links, addrs []byte
	for _, m := range [][]byte{
		link(1, "lo", "", unix.ARPHRD_LOOPBACK, up, 65536),
		link(2, "eth0", "", unix.ARPHRD_ETHER, up, 1400),
		link(3, "eth1", "", unix.ARPHRD_ETHER, unix.IFF_UP, 1500), // no carrier
		link(4, "eth2", "", unix.ARPHRD_ETHER, up, 1500),          // link-local only
		link(5, "ib0", "", unix.ARPHRD_INFINIBAND, up, 2044),      // IPv6 only
		link(8, "br0", "bridge", unix.ARPHRD_ETHER, up, 1500),
		link(6, "tun0", "", unix.ARPHRD_NONE, up, 1500), // point to point
	} {
		links = append(links, m...)
	}
	for _, m := range [][]byte{
		address(1, netlinktest.IP(unix.IFA_ADDRESS, "127.0.0.1"), netlinktest.IP(unix.IFA_LOCAL, "127.0.0.1"), netlinktest.Attr{Type: unix.IFA_LABEL, Value: []byte("lo\x00")}),
		address(2, netlinktest.IP(unix.IFA_ADDRESS, "198.51.100.9"), netlinktest.IP(unix.IFA_LOCAL, "198.51.100.9"), netlinktest.Attr{Type: unix.IFA_LABEL, Value: []byte("eth0:1\x00")}),
		address(2, netlinktest.IP(unix.IFA_ADDRESS, "192.0.2.2"), netlinktest.IP(unix.IFA_LOCAL, "192.0.2.2"), netlinktest.Attr{Type: unix.IFA_LABEL, Value: []byte("eth0\x00")}),
		address(2, netlinktest.IP(unix.IFA_ADDRESS, "192.0.2.3"), netlinktest.IP(unix.IFA_LOCAL, "192.0.2.3"), netlinktest.Attr{Type: unix.IFA_LABEL, Value: []byte("eth0\x00")}),
		address(3, netlinktest.IP(unix.IFA_ADDRESS, "192.0.2.4")),
		address(4, netlinktest.IP(unix.IFA_ADDRESS, "169.254.1.1")),
		address(6, netlinktest.IP(unix.IFA_ADDRESS, "10.0.0.2"), netlinktest.IP(unix.IFA_LOCAL, "10.0.0.1")),
		address(8, netlinktest.IP(unix.IFA_ADDRESS, "10.8.8.8")),
		address(7, netlinktest.IP(unix.IFA_ADDRESS, "10.9.9.9")), // of no known link
		address(2, netlinktest.IP(unix.IFA_ADDRESS, "fe80::1")),
		address(2, netlinktest.IP(unix.IFA_ADDRESS, "fd00::2")),
		address(4, netlinktest.IP(unix.IFA_ADDRESS, "fe80::4")),
		address(5, netlinktest.IP(unix.IFA_ADDRESS, "fd00::5")),
		address(1, netlinktest.IP(unix.IFA_ADDRESS, "::1")),
	} {
		addrs = append(addrs, m...)
	}
	for _, c := range []struct {
		name     string
		families []bool
		want     map[string]string
	}{
		{"inet,inet6", []bool{false, true}, map[string]string{"lo": "127.0.0.1", "eth0": "192.0.2.2", "ib0": "fd00::5", "tun0": "10.0.0.1", "br0": "10.8.8.8"}},
		{"inet6,inet", []bool{true, false}, map[string]string{"lo": "::1", "eth0": "fd00::2", "ib0": "fd00::5", "tun0": "10.0.0.1", "br0": "10.8.8.8"}},
		{"inet", []bool{false}, map[string]string{"lo": "127.0.0.1", "eth0": "192.0.2.2", "tun0": "10.0.0.1", "br0": "10.8.8.8"}},
		{"", nil, map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			devs, err := parseNetdevs(links, addrs)
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]string)
			for _, d := range devs {
				if (d.kind == "bridge") != (d.name == "br0") {
					t.Errorf("%s is a %q", d.name, d.kind)
				}
				if d.chooseAddr(c.families) {
					got[d.name] = d.addr.String()
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for n := range len(links) {
		parseNetdevs(links[:n], addrs[:n]) // must not panic
	}
}

// fakeRoot replaces sysfs and procfs by a temporary file tree during the test.
func fakeRoot(t *testing.T, files, symlinks map[string]string) {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range symlinks {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(root, target), path); err != nil {
			t.Fatal(err)
		}
	}
	old := sysfs
	sysfs = fsRoot(root)
	t.Cleanup(func() { sysfs = old })
}

const routeFile = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	0	00000000	0	0	0
eth1	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
`

func TestPerf(t *testing.T) {
	pci := "sys/devices/pci0000:00/0000:03:00.0/"
	fakeRoot(t, map[string]string{
		"proc/net/route":           routeFile,
		pci + "device":             "0x1017\n",
		pci + "current_link_width": "8\n",
		pci + "current_link_speed": "8.0 GT/s PCIe\n",
		pci + "net/eth1/mtu":       "9000\n",
		"sys/class/net/bond0/mtu":  "9000\n",
	}, map[string]string{
		"sys/class/net/eth1":             pci + "net/eth1",
		"sys/class/net/bond0/lower_eth1": "sys/class/net/eth1",
	})
	// The numbers that C UCX publishes: 11.27 MB/s and 10960 ns for an Ethernet
	// device of unknown speed with an MTU of 1400, 11.91 MB/s for lo.
	gen3x8 := 8.0 * 1e9 / 8 * 8 * (128.0 / 130) * (1024.0 / ((256+26)*4 + 16))
	for _, c := range []struct {
		name     string
		arp      uint16
		speed    uint32
		mtu      int
		bw, lat  float64
		priority uint8
	}{
		{"eth0", unix.ARPHRD_ETHER, unknownSpeed, 1400, 100e6 / 8 * 1360 / 1438, 10.96e-6, 0},
		{"lo", unix.ARPHRD_LOOPBACK, unknownSpeed, 65536, 100e6 / 8 * 65496 / 65536, 10.96e-6, 1},
		{"slow", unix.ARPHRD_ETHER, 10, 1500, 10e6 / 8 * 1460 / 1538, 62.8e-6, 1},
		{"ib0", unix.ARPHRD_INFINIBAND, 100000, 2044, 2200 << 20, 5.20576e-6, 1},
		{"eth1", unix.ARPHRD_ETHER, 100000, 9000, 2200 << 20, 5.20576e-6, 1},
	} {
		d := netdev{name: c.name, arp: c.arp, speed: c.speed, mtu: c.mtu}
		p := d.perf(&options{prefer: true, maxBW: 2200 << 20})
		if !near(p.BandwidthShared, c.bw) || !near(p.Latency.C, c.lat) || p.Priority != c.priority {
			t.Errorf("%s: %v B/s, %v s, priority %d; want %v, %v, %d",
				c.name, p.BandwidthShared, p.Latency.C, p.Priority, c.bw, c.lat, c.priority)
		}
		if p.Overhead != 50e-6 || p.SendOverhead != 50e-6 || p.RecvOverhead != 50e-6 ||
			p.BandwidthDedicated != 0 || p.Latency.M != 0 {
			t.Errorf("%s: %+v", c.name, p)
		}
		if p := d.perf(&options{maxBW: math.Inf(1)}); p.Priority != 0 {
			t.Errorf("%s: priority %d without PREFER_DEFAULT", c.name, p.Priority)
		}
	}
	for _, name := range []string{"eth1", "bond0"} {
		if got := sysfs.pciBandwidth(name); !near(got, gen3x8) {
			t.Errorf("%s: PCI bandwidth %v, want %v", name, got, gen3x8)
		}
	}
	if got := sysfs.pciBandwidth("eth0"); !math.IsInf(got, 1) {
		t.Errorf("a device without PCI has %v", got)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) }

func TestPCIGenerations(t *testing.T) {
	for _, c := range []struct {
		speed string
		want  float64 // B/s of one lane, without encoding overhead
	}{
		{"2.5 GT/s PCIe", 2.5e9 / 8 * 0.8 * 1024 / 1136},
		{"5.0 GT/s PCIe", 5e9 / 8 * 0.8 * 1024 / 1136},
		{"8 gt/s", 8e9 / 8 * 128 / 130 * 1024 / 1144},
		{"16.0 GT/s PCIe", 16e9 / 8 * 128 / 130 * 1024 / 1144},
		{"32.0 GT/s PCIe", 32e9 / 8 * 128 / 130 * 1024 / 1144},
		{"64.0 GT/s PCIe", math.Inf(1)},
		{"Unknown", math.Inf(1)},
		{"8.0 MB/s", math.Inf(1)},
		{"", math.Inf(1)},
	} {
		pci := "sys/devices/pci0000:00/0000:03:00.0/"
		fakeRoot(t, map[string]string{
			pci + "device":             "1",
			pci + "current_link_width": "1\n",
			pci + "current_link_speed": c.speed + "\n",
			// A sub-function: one directory more.
			pci + "uuid/net/eth0/mtu": "1500",
		}, map[string]string{"sys/class/net/eth0": pci + "uuid/net/eth0"})
		if got := sysfs.pciBandwidth("eth0"); got != c.want && !near(got, c.want) {
			t.Errorf("%q: %v, want %v", c.speed, got, c.want)
		}
	}
}

func TestLowerLoop(t *testing.T) {
	fakeRoot(t, map[string]string{"sys/class/net/a/x": ""}, map[string]string{
		"sys/class/net/a/lower_a": "sys/class/net/a",
	})
	if got := sysfs.pciDevice("a"); got != "" {
		t.Errorf("a circle leads to %q", got)
	}
}

func TestResources(t *testing.T) {
	h := newHost(t, "")
	list, err := h.md.Resources()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for i, r := range list {
		found = found || r == uct.Resource{Transport: "tcp", Device: "lo", Type: uct.DeviceNetwork, SysDevice: -1}
		if i > 0 && list[i-1].Device >= r.Device {
			t.Errorf("%v after %v", r, list[i-1])
		}
	}
	if !found {
		t.Errorf("no lo among %v", list)
	}
	if d := netip.MustParseAddr("127.0.0.1"); h.iface.dev.ip != d {
		t.Errorf("lo has address %v", h.iface.dev.ip)
	}
}
