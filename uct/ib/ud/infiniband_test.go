//go:build linux

package ud_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	_ "github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestInfiniBandAddresses checks that addresses of InfiniBand ports equal, byte for byte, those of
// uct_ib_iface_get_device_address (src/uct/ib/base/ib_iface.c).
func TestInfiniBandAddresses(t *testing.T) {
	const lid = 0x1234
	for _, c := range []struct {
		name  string
		port  verbstest.Port
		pairs []string
		want  string // "": the interface is not opened
	}{
		{"link", verbstest.Port{}, nil, "00 3412"},
		{"LMC", verbstest.Port{LMC: 3}, []string{"IB_NUM_PATHS", "8"}, "00 3412"},
		{"MTU", verbstest.Port{MTU: 4}, nil, "02 3412 04"},
		{"MTU that is set", verbstest.Port{}, []string{"UD_VERBS_PATH_MTU", "1024", "RC_VERBS_PATH_MTU", "1024"}, "02 3412 03"},
		{"global by force", verbstest.Port{GIDs: []verbstest.GID{subnet(0xfe, 0x80)}}, []string{"IB_IS_GLOBAL", "y"}, "40 3412 0102030405060708"},
		{"site", verbstest.Port{GIDs: []verbstest.GID{subnet(0xfe, 0xc0, 0, 0, 0, 0, 0x12, 7)}}, nil, "10 3412 1207"},
		{"site, global by force", verbstest.Port{GIDs: []verbstest.GID{subnet(0xfe, 0xc0, 0, 0, 0, 0, 0x12, 7)}}, []string{"IB_IS_GLOBAL", "y"}, "50 3412 0102030405060708 1207"},
		{"subnet", verbstest.Port{GIDs: []verbstest.GID{subnet(0xaa, 0xbb, 0, 0, 0, 0, 0, 9)}}, nil, "60 3412 0102030405060708 aabb000000000009"},
		{"another GID", verbstest.Port{GIDs: []verbstest.GID{subnet(0xfe, 0x80), subnet(0xaa)}}, []string{"IB_GID_INDEX", "1"}, "60 3412 0102030405060708 aa00000000000000"},
		{"full member", verbstest.Port{PKeys: []uint16{0x7fff, 0x0001, 0, 0x8002, 0x8003}}, nil, "04 3412 0280"},
		{"limited member", verbstest.Port{PKeys: []uint16{0, 0x0001, 0x0002}}, nil, "04 3412 0100"},
		{"default partition, limited", verbstest.Port{PKeys: []uint16{0x7fff}}, nil, "04 3412 ff7f"},
		{"chosen partition", verbstest.Port{PKeys: []uint16{0xffff, 0x0003, 0x8003}}, []string{"UD_VERBS_PKEY", "0x3", "RC_VERBS_PKEY", "0x3"}, "04 3412 0380"},
		{"chosen default", verbstest.Port{PKeys: []uint16{0x8003, 0xffff}}, []string{"UD_VERBS_PKEY", "0x7fff", "RC_VERBS_PKEY", "0x7fff"}, "00 3412"},
		{"no such partition", verbstest.Port{PKeys: []uint16{0xffff}}, []string{"UD_VERBS_PKEY", "0x3", "RC_VERBS_PKEY", "0x3"}, ""},
		{"no partition", verbstest.Port{PKeys: []uint16{0}}, nil, ""},
		{"all", verbstest.Port{MTU: 1, PKeys: []uint16{0x8009}, GIDs: []verbstest.GID{subnet(0xaa)}}, nil,
			"66 3412 0102030405060708 aa00000000000000 01 0980"},
	} {
		for _, transport := range []string{"ud_verbs", "rc_verbs"} {
			t.Run(c.name+", "+transport, func(t *testing.T) {
				c.port.InfiniBand, c.port.LID = true, lid
				net := network(t, port(c.port))
				set := settings(t, c.pairs...)
				component := net.Still()
				md := rigtest.Must(component.OpenMD("rxe0", set))(t)
				defer md.Close()
				i, err := md.OpenIface(worker(t), uct.IfaceParams{Transport: transport, Device: "rxe0:1"}, set)
				if c.want == "" {
					if !errors.Is(err, ucs.ErrNoElem) {
						t.Errorf("opened: %v", err)
					}
					return
				}
				check(t, err)
				defer i.Close()
				b := i.DeviceAddress()
				want := rigtest.Must(hex.DecodeString(strings.ReplaceAll(c.want, " ", "")))(t)
				if string(b) != string(want) || i.Attr().DeviceAddrLen != len(want) {
					t.Errorf("%x, want %s", b, c.want)
				}
				a := rigtest.Must(ib.ParseAddress(b))(t)
				if again := hex.EncodeToString(a.Append(nil)); again != hex.EncodeToString(want) {
					t.Errorf("read and packed again as %s", again)
				}
			})
		}
	}
}

// TestInfiniBandReach checks that reachability depends on subnet prefixes and partitions, and that
// messages to reachable ports arrive.
func TestInfiniBandReach(t *testing.T) {
	link, other := []verbstest.GID{subnet(0xfe, 0x80)}, []verbstest.GID{subnet(0xaa, 0xbb)}
	for _, c := range []struct {
		name  string
		a, b  verbstest.Port
		reach bool
	}{
		{"two ports", verbstest.Port{}, verbstest.Port{}, true},
		{"both of a subnet", verbstest.Port{GIDs: other}, verbstest.Port{GIDs: []verbstest.GID{{ID: [16]byte{0xaa, 0xbb, 15: 9}}}}, true},
		{"of different subnets", verbstest.Port{GIDs: link}, verbstest.Port{GIDs: other}, false},
		{"full and limited", verbstest.Port{PKeys: []uint16{0x8005}}, verbstest.Port{PKeys: []uint16{0x0005}}, true},
		{"limited both", verbstest.Port{PKeys: []uint16{0x0005}}, verbstest.Port{PKeys: []uint16{0x0005}}, false},
		{"partitions at different places", verbstest.Port{PKeys: []uint16{0, 0x7fff, 0x8005}}, verbstest.Port{PKeys: []uint16{0x8005}}, true},
		{"different partitions", verbstest.Port{PKeys: []uint16{0x8005}}, verbstest.Port{PKeys: []uint16{0x8006}}, false},
		{"MTU", verbstest.Port{MTU: 3}, verbstest.Port{MTU: 5}, true},
		{"LMC", verbstest.Port{LMC: 3}, verbstest.Port{LMC: 3}, true},
	} {
		for _, transport := range []string{"ud_verbs", "rc_verbs"} {
			t.Run(c.name+", "+transport, func(t *testing.T) {
				c.a.InfiniBand, c.b.InfiniBand, c.a.LID, c.b.LID = true, true, 0x100, 0x200
				net := network(t, port(c.a), port(c.b))
				f := fixture(t, net, "IB_NUM_PATHS", "8")
				f.Transport, f.Silent = transport, transport == "ud_verbs"
				g := f
				f.Domain, g.Domain = "rxe0", "rxe1"
				a, b := f.Open(t), g.Open(t)
				for _, d := range [][2]*ucttest.Host{{a, b}, {b, a}} {
					err := d[0].Iface.Reachable(uct.ReachableParams{DeviceAddr: d[1].Iface.DeviceAddress(), IfaceAddr: d[1].Iface.Address()})
					if (err == nil) != c.reach || err != nil && !errors.Is(err, ucs.ErrUnreachable) {
						t.Fatalf("reachable: %v", err)
					}
				}
				if !c.reach {
					return
				}
				ep, _ := a.ConnectPair(t, b)
				got := b.Collect(t, 1)
				for k := range uint64(20) {
					ucttest.Accept(t, func() error { return ep.AMShort(1, k, nil, 0, nil) }, a, b)
					ucttest.Accept(t, func() error {
						_, err := ep.AMBcopy(1, &ucttest.Packer{Data: make([]byte, 1000)}, 0, nil)
						return err
					}, a, b)
				}
				got.Wait(t, 40, a, b)
			})
		}
	}
}

// TestInfiniBandPaths checks that paths to a port differ in the low bits of both LIDs, within the
// LMC, and have a global route header only if the setting asks for it.
func TestInfiniBandPaths(t *testing.T) {
	for _, global := range []string{"n", "y"} {
		net := network(t, port(verbstest.Port{InfiniBand: true, LID: 0x100, LMC: 2}), port(verbstest.Port{InfiniBand: true, LID: 0x200, LMC: 2}))
		f := fixture(t, net, "IB_NUM_PATHS", "8", "IB_LID_PATH_BITS", "0-7", "IB_IS_GLOBAL", global)
		g := f
		f.Domain, g.Domain = "rxe0", "rxe1"
		a, b := f.Open(t), g.Open(t)
		got := b.Collect(t, 1)
		to := rigtest.Must(ib.ParseAddress(b.Iface.DeviceAddress()))(t)
		for path := range 8 {
			way := ud.PathTo(a.Iface, &to, path).AH
			if way.DLID != verbs.LID(0x200|path%4) || way.SrcPathBits != uint8(path%4) || way.Global != (global == "y") || way.Global && way.DGID != to.GID {
				t.Errorf("path %d: %+v", path, way)
			}
			ep := a.NewEndpoint(t, uct.EndpointParams{DeviceAddr: b.Iface.DeviceAddress(), IfaceAddr: b.Iface.Address(), PathIndex: path})
			ucttest.Accept(t, func() error { return ep.AMShort(1, uint64(path), nil, 0, nil) }, a, b)
		}
		got.Wait(t, 8, a, b)
	}
}
