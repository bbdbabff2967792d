//go:build linux

package ib

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/internal/netlink"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestSeeds checks that the flow labels of connections differ, as a whole and in the few bits that
// a network may hash, even if the queue pair numbers of the two ends follow a pattern.
func TestSeeds(t *testing.T) {
	for name, peer := range map[string]func(n verbs.QPN) verbs.QPN{
		"alike":    func(n verbs.QPN) verbs.QPN { return n },
		"by turns": func(n verbs.QPN) verbs.QPN { return n ^ 1 },
		"to one":   func(verbs.QPN) verbs.QPN { return 0x11 },
		"apart":    func(n verbs.QPN) verbs.QPN { return n + 1000 },
	} {
		all, high, low := make(map[uint32]bool), make(map[uint32]bool), make(map[uint32]bool)
		const n = 64
		for k := range verbs.QPN(n) {
			l := flowLabel(Seed(0x40+k, peer(0x40+k)))
			all[l], high[l>>16], low[l>>1&15] = true, true, true
			if l == 0 || l > flowLabelMask {
				t.Errorf("label %#x", l)
			}
		}
		if len(all) < n-4 || len(high) < 12 || len(low) < 12 {
			t.Errorf("%s: %d labels of %d, %d of 16 in the high bits and %d in the low ones", name, len(all), n, len(high), len(low))
		}
	}
}

// routed returns an interface of a port at 10.1.0.1, on network interface 2.
func routed(routes func() (netlink.Routes, error)) *Iface {
	d := &Domain{routes: routes}
	return &Iface{
		Domain: d, Port: &Port{Domain: d, Attr: verbs.PortAttr{LinkLayer: verbs.LinkEthernet}}, pkey: defaultPKey,
		source: source{verbs.GIDEntry{GID: verbs.GIDFromAddr(netip.MustParseAddr("10.1.0.1")), IfIndex: 2}, RoCEv2},
	}
}

// at returns the address of a RoCE v2 port.
func at(addr string) *Address {
	ip := netip.MustParseAddr(addr)
	return &Address{Ethernet: true, Version: RoCEv2, IPv6: ip.Is6(), GID: verbs.GIDFromAddr(ip)}
}

// TestReachesByRoute checks that a peer is reachable if routes lead to it through our network
// interface and no other interface has a more specific route (uct_ib_iface_roce_is_routable).
// Changes of the routes take effect.
func TestReachesByRoute(t *testing.T) {
	var routes netlink.Routes
	var failed error
	i := routed(func() (netlink.Routes, error) { return routes, failed })
	v6 := routed(i.Domain.routes)
	v6.source.GID = verbs.GIDFromAddr(netip.MustParseAddr("fd00::1"))
	check := func(i *Iface, addr string, want bool) {
		t.Helper()
		if err := i.Reaches(at(addr)); (err == nil) != want || err != nil && !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	check(i, "10.1.0.2", false)
	routes.Add(2, netip.MustParsePrefix("10.1.0.0/16"))
	check(i, "10.1.0.2", true)
	check(i, "10.2.0.2", false)
	routes.Add(2, netip.MustParsePrefix("0.0.0.0/0"))
	check(i, "10.2.0.2", true)
	routes.Add(3, netip.MustParsePrefix("10.2.0.0/24"))
	check(i, "10.2.0.2", false)
	check(i, "10.2.1.2", true)
	routes.Add(3, netip.MustParsePrefix("fe80::/64"))
	check(v6, "fe80::7", false)
	routes.Add(2, netip.MustParsePrefix("fe80::/64"))
	check(v6, "fe80::7", true) // every link has this route
	check(v6, "10.1.0.2", false)
	check(i, "fe80::7", false)
	routes, failed = netlink.Routes{}, errors.New("the kernel does not tell")
	check(i, "10.9.9.9", true)
	failed = nil
	check(i, "10.9.9.9", false)
	i.source.IfIndex = 0
	check(i, "10.9.9.9", true)
}

// TestReachesSelf checks that all devices of this machine reach its own addresses.
func TestReachesSelf(t *testing.T) {
	i := routed(netlink.ReadRoutes)
	i.source.IfIndex = 1 << 20 // no route uses this interface
	if err := i.Reaches(at("127.0.0.1")); err != nil {
		t.Error(err)
	}
	if !i.here(at("127.0.0.1")) || !i.here(at("10.1.0.1")) || i.here(at("192.0.2.77")) || i.here(&Address{LID: 1}) {
		t.Error("what is here and what is not")
	}
}

// TestReaches checks what makes an address unreachable apart from routes.
func TestReaches(t *testing.T) {
	i := routed(func() (netlink.Routes, error) { return netlink.Routes{}, errors.New("none") })
	for name, change := range map[string]func(a *Address){
		"another partition": func(a *Address) { a.PKey = 0x8001 },
		"RoCE v1":           func(a *Address) { a.Version = RoCEv1 },
		"any RoCE":          func(a *Address) { a.Version = RoCEAny },
		"an index":          func(a *Address) { a.HasIndex = true },
		"InfiniBand":        func(a *Address) { a.Ethernet = false },
		"said to be IPv6":   func(a *Address) { a.IPv6 = true },
	} {
		a := at("10.1.0.2")
		if err := i.Reaches(a); err != nil {
			t.Fatal(err)
		}
		if change(a); !errors.Is(i.Reaches(a), ucs.ErrUnreachable) {
			t.Errorf("%s: %v", name, i.Reaches(a))
		}
	}
	a := at("10.1.0.2")
	a.PKey = 0x7fff
	if err := i.Reaches(a); err != nil {
		t.Errorf("a limited member: %v", err)
	}
	i.pkey = 0x7fff
	if err := i.Reaches(a); !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("two limited members: %v", err)
	}
	i.pkey, i.failed = defaultPKey, ucs.ErrIO
	if err := i.Reaches(a); !errors.Is(err, ucs.ErrUnreachable) || !errors.Is(err, ucs.ErrIO) {
		t.Errorf("by a device that is gone: %v", err)
	}
}

// TestSubnetLength checks that the prefix length of the local subnet is taken from the routes of
// the network interface.
func TestSubnetLength(t *testing.T) {
	var routes netlink.Routes
	i := routed(func() (netlink.Routes, error) { return routes, nil })
	if n := i.subnetLength(); n != 32 {
		t.Errorf("%d bits where nothing says it", n)
	}
	routes.Add(3, netip.MustParsePrefix("10.1.0.0/24"))
	routes.Add(2, netip.MustParsePrefix("10.1.0.0/16"))
	if n := i.subnetLength(); n != 16 {
		t.Errorf("%d bits", n)
	}
}

// TestFLID checks that ports in other subnets of a site are reached by the LID of their router,
// which their GID contains (FLID).
func TestFLID(t *testing.T) {
	gid := func(flid, subnet byte) verbs.GID {
		return verbs.GID{0xfe, 0xc0, 4: flid, 5: flid, 7: subnet, 15: 1}
	}
	for _, c := range []struct {
		name       string
		own, other verbs.GID
		local      bool // addressed by LID alone
		off        bool
		reach      bool
		lid        verbs.LID
	}{
		{"one subnet", gid(1, 5), gid(1, 5), false, false, true, 0x40},
		{"another", gid(1, 5), gid(2, 6), false, false, true, 0x202},
		{"another, not wanted", gid(1, 5), gid(2, 6), false, true, false, 0x40},
		{"ours without", gid(0, 5), gid(2, 6), false, false, false, 0x40},
		{"theirs without", gid(1, 5), gid(0, 6), false, false, false, 0x40},
		{"of no site", verbs.GID{0xfe, 0x80}, gid(2, 6), false, false, false, 0x40},
		{"one subnet, by another router", gid(1, 5), gid(2, 5), false, false, true, 0x40},
		{"without a GID", gid(1, 5), gid(2, 6), true, false, true, 0x40},
	} {
		d := new(Domain)
		i := &Iface{Domain: d, Port: &Port{Domain: d, Attr: verbs.PortAttr{LinkLayer: verbs.LinkInfiniBand}}, pkey: defaultPKey,
			source: source{GIDEntry: verbs.GIDEntry{GID: c.own}}, bits: []uint8{0, 3}, flid: !c.off, hopLimit: 9}
		a := &Address{LID: 0x40, Global: !c.local, GID: c.other}
		if err := i.Reaches(a); (err == nil) != c.reach {
			t.Errorf("%s: %v", c.name, err)
		}
		if w := i.PathTo(a, 1, 0).AH; w.DLID != c.lid|3 || w.SrcPathBits != 3 || w.Global != (!c.local && [8]byte(c.own[:8]) != [8]byte(c.other[:8])) {
			t.Errorf("%s: %+v", c.name, w)
		}
	}
}
