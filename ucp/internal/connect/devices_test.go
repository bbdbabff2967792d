package connect

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/proto"
)

// sender is a release of C UCX, or this library, with a setting of UCX_CM_USE_ALL_DEVICES, as a
// client or server of this library meets it.
type sender struct {
	name string
	all  bool
	v    proto.CMVersion
	caps uint8 // capabilities of memory domains, which releases up to 1.18 pack
	// index is whether the data has resource indices.
	index bool
	// both is whether the data can be read in either way, as only that of this library can.
	both bool
	// known is whether the data shows the setting.
	known bool
}

// senders are the rows of the table in the package comment. Releases differ in no more than the
// fields; the default layout is v1 up to 1.15.
func senders(role Role) (list []sender) {
	const register = 0x20
	for release := 13; release <= 22; release++ {
		for _, all := range []bool{false, true} {
			for _, v := range []proto.CMVersion{proto.CMDataV1, proto.CMDataV2} {
				s := sender{name: fmt.Sprintf("1.%d, layout v%d", release, v+1), all: all, v: v}
				if release < 19 {
					s.caps = register
				}
				s.index = all && release >= 14
				s.known = s.index || release >= 19 || v == proto.CMDataV2 && role == Client && release >= 16
				if v == proto.CMDataV2 && release < 16 {
					continue // a client has this layout by a setting only
				}
				list = append(list, s)
			}
		}
	}
	for _, v := range []proto.CMVersion{proto.CMDataV1, proto.CMDataV2} {
		list = append(list,
			sender{name: fmt.Sprintf("this library, layout v%d", v+1), v: v, known: true},
			sender{name: fmt.Sprintf("this library, layout v%d", v+1), v: v, all: true, both: role == Client, index: role == Server, known: true})
	}
	return list
}

// data returns the sender's data as this library reads it.
func (s *sender) data() *proto.CMData {
	d := &proto.CMData{Version: s.v, RscIndex: s.index, Both: s.both, EpID: 1}
	d.Address.Devices = []proto.AddressDevice{{MDCaps: s.caps, NumPaths: 1, SysDev: proto.SysDevUnknown, Ifaces: []proto.AddressIface{{
		Transport: transport, Addr: make([]byte, addrLen), EpAddrs: []proto.AddressEp{{Lane: 1, Addr: []byte{1, 2, 3}}},
		Attr: proto.IfaceAttr{Overhead: 0.5, Bandwidth: 1, Latency: 0.25}, RscIndex: 4,
	}}}}
	return reread(d)
}

// TestReleases: for each release, setting and role, this side does what the other side expects if
// the data shows what that is. Otherwise the setting of this side decides.
func TestReleases(t *testing.T) {
	for _, own := range []bool{false, true} {
		for _, s := range senders(Client) {
			d := s.data()
			all, index := Devices{All: own}.Accept(d, PackedBoth(d, yield))
			want := own
			if s.known {
				want = s.all
			}
			if all != want {
				t.Errorf("client %s, setting %t, and here %t: PRE_REQUEST follows: %t", s.name, s.all, own, all)
			}
			if index != (d.RscIndex || s.both) {
				t.Errorf("client %s, setting %t: the reply has indices: %t", s.name, s.all, index)
			}
			if s.known && index && !all {
				t.Errorf("client %s, setting %t: the reply says that PRE_REQUEST follows, and it does not", s.name, s.all)
			}
		}
		for _, s := range senders(Server) {
			want := own
			if s.known {
				want = own && s.all // a server replies in the form of the client, or rejects it
			}
			if all := (Devices{All: own}).Follow(s.data()); all != want {
				t.Errorf("server %s, setting %t, and here %t: PRE_REQUEST is awaited: %t", s.name, s.all, own, all)
			}
		}
	}
}

// TestRelease113: with UCX_PEER_RELEASE=1.13 layout v2 of a client does not show the setting.
func TestRelease113(t *testing.T) {
	s := sender{v: proto.CMDataV2, caps: 0x20}
	for _, own := range []bool{false, true} {
		if all, _ := (Devices{All: own, Release113: true}).Accept(s.data(), false); all != own {
			t.Errorf("with %t here: %t", own, all)
		}
		if all, _ := (Devices{All: own}).Accept(s.data(), false); all {
			t.Errorf("of any release, with %t here: %t", own, all)
		}
		s := sender{v: proto.CMDataV1, caps: 0x20}
		if all, _ := (Devices{All: own}).Accept(s.data(), false); all != own {
			t.Errorf("layout v1, with %t here: %t", own, all)
		}
	}
}

// TestPackedBoth: data counts as packed in both ways only if an interface of this side explains the
// length of an address.
func TestPackedBoth(t *testing.T) {
	both := sender{v: proto.CMDataV1, both: true, all: true}
	plain := sender{v: proto.CMDataV1}
	index := both.data()
	index.RscIndex = true
	for _, x := range []struct {
		name       string
		d          *proto.CMData
		interfaces map[proto.TransportID]int
		want       bool
	}{
		{"packed in both ways", both.data(), map[proto.TransportID]int{transport: addrLen}, true},
		{"among others", both.data(), map[proto.TransportID]int{transport: addrLen, transport + 1: addrLen + 1}, true},
		{"another transport", both.data(), map[proto.TransportID]int{transport + 1: addrLen}, false},
		{"another length", both.data(), map[proto.TransportID]int{transport: addrLen + 1}, false},
		{"no interfaces", both.data(), nil, false},
		{"packed without indices", plain.data(), map[proto.TransportID]int{transport: addrLen}, false},
		{"read with indices", index, map[proto.TransportID]int{transport: addrLen}, false},
	} {
		got := PackedBoth(x.d, func(yield func(proto.TransportID, int) bool) {
			for id, n := range x.interfaces {
				if !yield(id, n) {
					return
				}
			}
		})
		if got != x.want {
			t.Errorf("%s: %t", x.name, got)
		}
	}
}
