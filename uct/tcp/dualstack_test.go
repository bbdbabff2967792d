//go:build linux

package tcp

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestDualStack: a device connects from its second address only to a peer that has just that
// address family, and lists that address only if UCX_TCP_AF_DUAL is set.
func TestDualStack(t *testing.T) {
	if !hasIPv6Loopback() {
		t.Skip("lo has no IPv6 address")
	}
	dual, six := newHost(t, "", "AF_DUAL=y"), newHost(t, "", "AF_PRIO=inet6", "AF_DUAL=y")
	to := uct.ReachableParams{DeviceAddr: six.iface.DeviceAddress(), IfaceAddr: six.iface.Address()}
	if err := dual.iface.Reachable(to); !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("the first address reaches the other family: %v", err)
	}
	if err := dual.iface.SecondReachable(to); err != nil {
		t.Errorf("the second address: %v", err)
	}
	own := uct.ReachableParams{DeviceAddr: dual.iface.DeviceAddress(), IfaceAddr: dual.iface.Address()}
	for _, h := range []*host{dual, six} {
		if err := h.iface.SecondReachable(own); !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("the second address reaches the first family: %v", err)
		}
	}
	if ep, err := six.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: own.DeviceAddr, IfaceAddr: own.IfaceAddr}); ep != nil || !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("an endpoint without an address of the family: %v, %v", ep, err)
	}
	if at, ok, err := six.iface.SecondAddress(); ok || err != nil {
		t.Errorf("a device with one family lists %v, %v", at, err)
	}
	for _, listed := range []bool{false, true} {
		h := dual
		if !listed {
			h = newHost(t, "")
		}
		at, ok, err := h.iface.SecondAddress()
		if ok != listed || err != nil {
			t.Fatalf("listed %t: %v, %v", ok, at, err)
		}
		// An endpoint in each direction, over one connection.
		out, err := h.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: to.DeviceAddr, IfaceAddr: to.IfaceAddr, UserData: h})
		if err != nil {
			t.Fatal(err)
		}
		from, other := out.(*endpoint).InterfaceAddr()
		if !other || listed && !bytes.Equal(from.IfaceAddr, at.IfaceAddr) {
			t.Errorf("the endpoint is of %v (other %t), listed is %v", from, other, at)
		}
		back, err := six.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: from.DeviceAddr, IfaceAddr: from.IfaceAddr, UserData: six})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "connect", connected(out.(*endpoint), back.(*endpoint)), h, six)
		if n := len(h.iface.others[netip.IPv6Loopback()].endpoints); n != 1 {
			t.Errorf("%d endpoints at the second address", n)
		}
		out.Close()
		back.Close()
	}
	if err := dual.iface.Close(); err != nil {
		t.Error(err)
	}
}

// TestDualStackAnswered: a peer that connected to the second address, but claims a listener
// elsewhere, is answered over its connection.
func TestDualStackAnswered(t *testing.T) {
	if !hasIPv6Loopback() {
		t.Skip("lo has no IPv6 address")
	}
	h := newHost(t, "", "AF_DUAL=y")
	if _, ok, err := h.iface.SecondAddress(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	second := h.iface.others[netip.IPv6Loopback()]
	at := &host{t: t, w: h.w, md: h.md, iface: second}
	l := addr("[::2]:7777") // no such listener
	p := dial(t, at)
	p.send(flight(l, 3))
	p.want(ack)
	params := uct.EndpointParams{DeviceAddr: peerDeviceAddr(netip.MustParseAddr("::2")), IfaceAddr: []byte{7777 >> 8, 7777 & 0xFF}, UserData: l, Over: &second.conns.src}
	if !h.iface.CanSendOver(params.Over, uct.ReachableParams{DeviceAddr: params.DeviceAddr, IfaceAddr: params.IfaceAddr}) {
		t.Fatal("the connection cannot be answered over")
	}
	ue, err := h.iface.NewEndpoint(params)
	if err != nil {
		t.Fatal(err)
	}
	p.want(req(second.addr, 3))
	p.send(ack)
	until(t, "connect", connected(ue.(*endpoint)), h)
}
