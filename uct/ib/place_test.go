//go:build linux

package ib_test

import (
	"errors"
	"math"
	"net/netip"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// These tests check how settings and the properties of a port determine how an interface uses it.

// bond is a device with bonds: links has the number of ports of each, by network interface index.
type bond struct {
	narrow
	links map[int]int
}

func (b bond) BondPorts(link int) int { return b.links[link] }

var settings = rigtest.Settings

// opened opens an interface of the first port of a device, or returns the error of that.
func opened(t *testing.T, s ib.Source, pairs ...string) (uct.Iface, error) {
	t.Helper()
	set := settings(t, pairs...)
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	md, err := ib.NewComponent("ib", s).OpenMD("rxe0", set)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { md.Close() })
	i, err := md.OpenIface(w, uct.IfaceParams{Transport: "ud_verbs", Device: "rxe0:1"}, set)
	if err == nil {
		t.Cleanup(func() { i.Close() })
	}
	return i, err
}

// deviceOf returns a device with one port.
func deviceOf(p verbstest.Port) narrow {
	return narrow{verbstest.NewFabric().Add(verbstest.Config{Name: "rxe0", Ports: []verbstest.Port{p}}), math.Inf(1)}
}

// TestNumPaths checks that the number of paths to a peer is that of C UCX
// (uct_ib_iface_set_num_paths), and that a bond has the bandwidth of all its links.
func TestNumPaths(t *testing.T) {
	bonded := verbstest.IP("10.9.0.1")
	bonded.IfIndex, bonded.NetDev = 7, "bond0"
	for _, c := range []struct {
		name  string
		port  verbstest.Port
		pairs []string
		paths int
		wire  float64 // bandwidth, relative to the same port without a bond
	}{
		{"Ethernet", verbstest.Port{}, nil, 1, 1},
		{"bond", verbstest.Port{GIDs: []verbstest.GID{bonded}}, nil, 4, 4},
		{"bond, NDR", verbstest.Port{GIDs: []verbstest.GID{bonded}, Speed: 128}, nil, 4, 4},
		{"bond, by force", verbstest.Port{GIDs: []verbstest.GID{bonded}}, []string{"IB_NUM_PATHS", "3"}, 3, 4},
		{"HDR", verbstest.Port{Speed: 64}, nil, 1, 1},
		{"NDR", verbstest.Port{Speed: 128}, nil, 2, 1},
		{"NDR, by force", verbstest.Port{Speed: 128}, []string{"IB_NUM_PATHS", "1"}, 1, 1},
		{"by force", verbstest.Port{}, []string{"IB_NUM_PATHS", "5"}, 5, 1},
		{"InfiniBand", verbstest.Port{InfiniBand: true, LMC: 2}, nil, 1, 1},
		{"InfiniBand, LIDs", verbstest.Port{InfiniBand: true, LMC: 2}, []string{"IB_LID_PATH_BITS", "0-9"}, 4, 1},
		{"InfiniBand, NDR", verbstest.Port{InfiniBand: true, LMC: 2, Speed: 128}, nil, 2, 1},
		{"InfiniBand, NDR, LIDs", verbstest.Port{InfiniBand: true, LMC: 2, Speed: 128}, []string{"IB_LID_PATH_BITS", "3,1,0"}, 3, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone, err := opened(t, deviceOf(c.port))
			if err != nil {
				t.Fatal(err)
			}
			i, err := opened(t, bond{deviceOf(c.port), map[int]int{7: 4, 1: 0}}, c.pairs...)
			if err != nil {
				t.Fatal(err)
			}
			a, b := i.Attr(), alone.Attr()
			if a.NumPaths != c.paths {
				t.Errorf("%d paths, want %d", a.NumPaths, c.paths)
			}
			if got := a.Perf.BandwidthShared / b.Perf.BandwidthShared; math.Abs(got-c.wire) > 1e-9 {
				t.Errorf("%v times the bandwidth, want %v", got, c.wire)
			}
		})
	}
	if _, err := opened(t, deviceOf(verbstest.Port{InfiniBand: true, LMC: 1}), "IB_LID_PATH_BITS", "2-3"); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("no path is left: %v", err)
	}
}

// gidOf returns the address with the GID that an interface has chosen.
func gidOf(t *testing.T, i uct.Iface) ib.Address {
	t.Helper()
	a, err := ib.ParseAddress(i.DeviceAddress())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestChosenGID checks that the GID of a port is chosen as in C UCX: by RoCE version, then by
// family, then with link-local addresses last (uct_ib_device_select_gid). GIDs that the settings
// exclude are skipped.
func TestChosenGID(t *testing.T) {
	v1 := func(addr string) verbstest.GID {
		g := verbstest.IP(addr)
		g.V1 = true
		return g
	}
	ip := verbstest.IP
	for _, c := range []struct {
		name  string
		gids  []verbstest.GID
		pairs []string
		want  string
		v     ib.RoCEVersion
	}{
		{"IPv4 before IPv6", []verbstest.GID{ip("fe80::1"), ip("fd00::1"), ip("10.1.0.1")}, nil, "10.1.0.1", ib.RoCEv2},
		{"IPv6 before that of the link", []verbstest.GID{ip("fe80::1"), ip("fd00::1")}, nil, "fd00::1", ib.RoCEv2},
		{"the link's", []verbstest.GID{ip("fe80::1")}, nil, "fe80::1", ib.RoCEv2},
		{"the first", []verbstest.GID{ip("10.1.0.2"), ip("10.1.0.1")}, nil, "10.1.0.2", ib.RoCEv2},
		{"v2 before v1", []verbstest.GID{v1("10.1.0.1"), ip("fe80::1")}, nil, "fe80::1", ib.RoCEv2},
		{"v1", []verbstest.GID{v1("fe80::1"), v1("fd00::1"), v1("10.1.0.1")}, nil, "10.1.0.1", ib.RoCEv1},
		{"v1, IPv6", []verbstest.GID{v1("fe80::1"), v1("fd00::1")}, nil, "fd00::1", ib.RoCEv1},
		{"v1, the link's", []verbstest.GID{v1("fe80::1")}, nil, "fe80::1", ib.RoCEv1},
		{"by number", []verbstest.GID{ip("10.1.0.1"), v1("fd00::1")}, []string{"IB_GID_INDEX", "1"}, "fd00::1", ib.RoCEv1},
		{"in subnets", []verbstest.GID{ip("10.1.0.1"), ip("10.2.0.1"), ip("10.3.0.1")}, []string{"IB_ROCE_SUBNETS", "10.3.0.0/16,10.2.0.0/16"}, "10.2.0.1", ib.RoCEv2},
		{"not in subnets", []verbstest.GID{ip("10.1.0.1"), ip("10.2.0.1"), ip("10.3.0.1")}, []string{"IB_ROCE_SUBNETS", "^10.1.0.0/16,10.2.0.0/16"}, "10.3.0.1", ib.RoCEv2},
		{"another family's subnet", []verbstest.GID{ip("10.1.0.1"), ip("fd00::1")}, []string{"IB_ROCE_SUBNETS", "fd00::/64"}, "fd00::1", ib.RoCEv2},
	} {
		t.Run(c.name, func(t *testing.T) {
			i, err := opened(t, deviceOf(verbstest.Port{GIDs: c.gids}), c.pairs...)
			if err != nil {
				t.Fatal(err)
			}
			a := gidOf(t, i)
			if got := a.GID.Addr().String(); got != c.want || a.Version != c.v || a.IPv6 == a.GID.Addr().Is4() {
				t.Errorf("%+v, want %s with %v", a, c.want, c.v)
			}
		})
	}
	for name, pairs := range map[string][]string{
		"in no subnet":      {"IB_ROCE_SUBNETS", "10.9.0.0/16"},
		"in no subnet left": {"IB_ROCE_SUBNETS", "^10.0.0.0/8"},
	} {
		if _, err := opened(t, deviceOf(verbstest.Port{GIDs: []verbstest.GID{ip("10.1.0.1")}}), pairs...); !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := opened(t, deviceOf(verbstest.Port{}), "IB_ROCE_SUBNETS", "10.1.0.0"); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("a subnet without a length: %v", err)
	}
}

// TestRefusedGID checks that a GID which the kernel cannot use is skipped, unless it is set by
// index.
func TestRefusedGID(t *testing.T) {
	d := deviceOf(verbstest.Port{GIDs: []verbstest.GID{verbstest.IP("10.1.0.1"), verbstest.IP("10.2.0.1")}})
	refuse := map[[16]byte]bool{verbstest.IP("10.1.0.1").ID: true}
	d.SetResolve(func(from, to [16]byte) syscall.Errno {
		if from != to {
			t.Errorf("tried from %v to %v", from, to)
		}
		if refuse[from] {
			return syscall.ENODEV
		}
		return 0
	})
	i, err := opened(t, d)
	if err != nil {
		t.Fatal(err)
	}
	if got := gidOf(t, i).GID.Addr().String(); got != "10.2.0.1" {
		t.Errorf("address %s", got)
	}
	refuse[verbstest.IP("10.2.0.1").ID] = true
	if _, err := opened(t, d); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("all are refused: %v", err)
	}
	if _, err = opened(t, d, "IB_GID_INDEX", "0"); err != nil {
		t.Errorf("by number: %v", err)
	}
}

// TestSubnetPrefix checks that InfiniBand ports of another subnet than the one set cannot be
// opened, and that Ethernet ports can.
func TestSubnetPrefix(t *testing.T) {
	in := verbstest.GID{ID: [16]byte{0xaa, 0xbb, 7: 9, 15: 1}}
	for _, c := range []struct {
		prefix string
		port   verbstest.Port
		err    error
	}{
		{"", verbstest.Port{InfiniBand: true}, nil},
		{"fe80:0:0:0", verbstest.Port{InfiniBand: true}, nil},
		{"fe80:0:0:1", verbstest.Port{InfiniBand: true}, ucs.ErrUnsupported},
		{"aabb:0:0:9", verbstest.Port{InfiniBand: true, GIDs: []verbstest.GID{in}}, nil},
		{"fe80:0:0:0", verbstest.Port{InfiniBand: true, GIDs: []verbstest.GID{in}}, ucs.ErrUnsupported},
		{"fe80:0:0:1", verbstest.Port{}, nil},
	} {
		if _, err := opened(t, deviceOf(c.port), "IB_SUBNET_PREFIX", c.prefix); !errors.Is(err, c.err) {
			t.Errorf("subnet %q, port %+v: %v", c.prefix, c.port, err)
		}
	}
	for _, bad := range []string{"fe80", "fe80:0:0:0:0", "fe80:0:0:g", "fe80::0", "1fe80:0:0:0"} {
		if err := new(config.Set).Modify("IB_SUBNET_PREFIX", bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestReachability checks the settings that decide which addresses count as reachable.
func TestReachability(t *testing.T) {
	const subnet = "IB_ROCE_REACHABILITY_MODE"
	for _, c := range []struct {
		pairs      []string
		near, site bool // 10.9.0.2, 10.9.1.1 and 10.8.0.1
		far        bool
	}{
		{nil, true, true, true}, // routes are not checked without a network interface
		{[]string{subnet, "all"}, true, true, true},
		{[]string{subnet, "local_subnet", "IB_ROCE_SUBNET_PREFIX_LEN", "24"}, true, false, false},
		{[]string{subnet, "local_subnet", "IB_ROCE_SUBNET_PREFIX_LEN", "16"}, true, true, false},
		{[]string{"IB_ROCE_LOCAL_SUBNET", "y", "IB_ROCE_SUBNET_PREFIX_LEN", "16"}, true, true, false},
		{[]string{"IB_ROCE_LOCAL_SUBNET", "n", "IB_ROCE_SUBNET_PREFIX_LEN", "16"}, true, true, true},
		{[]string{subnet, "local_subnet", "IB_ROCE_SUBNET_PREFIX_LEN", "0"}, true, true, true},
		{[]string{subnet, "local_subnet", "IB_ROCE_SUBNET_PREFIX_LEN", "inf"}, false, false, false},
	} {
		i, err := opened(t, deviceOf(verbstest.Port{}), c.pairs...)
		if err != nil {
			t.Fatal(err)
		}
		for addr, want := range map[string]bool{"10.9.0.1": true, "10.9.0.2": c.near, "10.9.1.1": c.site, "10.8.0.1": c.far} {
			a := gidOf(t, i)
			a.GID = verbs.GIDFromAddr(netip.MustParseAddr(addr))
			err := i.Reachable(uct.ReachableParams{DeviceAddr: a.Append(nil), IfaceAddr: i.Address()})
			if (err == nil) != want || err != nil && !errors.Is(err, ucs.ErrUnreachable) {
				t.Errorf("%v: %s: %v", c.pairs, addr, err)
			}
		}
	}
	if _, err := opened(t, deviceOf(verbstest.Port{}), subnet, "local_subnet", "IB_ROCE_SUBNET_PREFIX_LEN", "33"); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("33 bits of an IPv4 address: %v", err)
	}
}

// TestRoutableGID checks that an InfiniBand port with a GID for routes by FLID, at index 1, uses
// that GID, unless the settings say otherwise.
func TestRoutableGID(t *testing.T) {
	link := verbstest.GID{ID: [16]byte{0xfe, 0x80, 15: 1}}
	alias := verbstest.GID{ID: [16]byte{0xfe, 0xc0, 5: 7, 7: 3, 8: 0, 9: 0x14, 10: 5, 15: 1}}
	other := alias
	other.ID[9] = 0x15
	without := alias
	without.ID[5] = 0
	for _, c := range []struct {
		name  string
		gids  []verbstest.GID
		pairs []string
		want  int
	}{
		{"alias", []verbstest.GID{link, alias}, nil, 1},
		{"alias, not wanted", []verbstest.GID{link, alias}, []string{"IB_FLID_ROUTE", "n"}, 0},
		{"another by number", []verbstest.GID{link, alias}, []string{"IB_GID_INDEX", "0"}, 0},
		{"no alias", []verbstest.GID{link, other}, nil, 0},
		{"no FLID", []verbstest.GID{link, without}, nil, 0},
		{"alone", []verbstest.GID{link}, nil, 0},
		{"elsewhere", []verbstest.GID{link, {}, alias}, nil, 0},
	} {
		i, err := opened(t, deviceOf(verbstest.Port{InfiniBand: true, GIDs: c.gids}), c.pairs...)
		if err != nil {
			t.Fatal(err)
		}
		if got := i.(interface{ GID() verbs.GIDEntry }).GID().Index; got != c.want {
			t.Errorf("%s: GID %d", c.name, got)
		}
	}
}

// TestAddrType checks that the deprecated setting ADDR_TYPE enables global routes.
func TestAddrType(t *testing.T) {
	for typ, global := range map[string]bool{"auto": false, "ib_local": false, "eth": false, "ib_site_local": true, "ib_global": true} {
		i, err := opened(t, deviceOf(verbstest.Port{InfiniBand: true}), "IB_ADDR_TYPE", typ)
		if err != nil {
			t.Fatal(err)
		}
		if got := gidOf(t, i).Global; got != global {
			t.Errorf("%s: global %v", typ, got)
		}
	}
}
