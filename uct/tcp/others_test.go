//go:build linux

package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestLoopbackIsOne: all of 127.0.0.0/8 counts as the one address of lo.
func TestLoopbackIsOne(t *testing.T) {
	h := newHost(t, "")
	for _, at := range []string{"127.0.0.5", "127.255.255.254", "::ffff:127.0.0.9"} {
		ip := netip.MustParseAddr(at)
		if i, err := h.iface.openAt(ip); i != h.iface || err != nil {
			t.Errorf("%s has another interface, or none: %v", at, err)
		}
		d, err := parseDeviceAddr(peerDeviceAddr(ip))
		if err != nil || d.ip != loopback4 {
			t.Errorf("a peer at %s is at %v, %v", at, d.ip, err)
		}
	}
}

// TestManyOthers: unused interfaces at other addresses make room for new ones, and their number is
// bounded.
func TestManyOthers(t *testing.T) {
	h := newHost(t, "")
	i := h.iface
	add := func(n int) *iface {
		o := i.clone(netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", n)))
		if i.others == nil {
			i.others = make(map[netip.Addr]*iface)
		}
		i.others[netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", n))] = o
		return o
	}
	for n := range maxOthers {
		o := add(n)
		if n > 0 {
			o.endpoints[&endpoint{iface: o, closed: true}] = struct{}{}
		}
	}
	if err := i.makeOtherRoom(); err != nil || len(i.others) != maxOthers-1 {
		t.Errorf("%d interfaces with one that is not used: %v", len(i.others), err)
	}
	o := add(0)
	o.endpoints[&endpoint{iface: o, closed: true}] = struct{}{}
	if err := i.makeOtherRoom(); !errors.Is(err, ucs.ErrNoResource) || len(i.others) != maxOthers {
		t.Errorf("%d interfaces that are all used: %v", len(i.others), err)
	}
}
