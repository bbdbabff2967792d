//go:build linux

package tcp

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestMultihomed: endpoints at another address of the device than the interface's connect from that
// address, share the interface's handlers and failures, and end with it.
func TestMultihomed(t *testing.T) {
	if !hasIPv6Loopback() {
		t.Skip("lo has no IPv6 address")
	}
	a, b := newHost(t, ""), newHost(t, "")
	open := func(h *host, local netip.Addr) *endpoint {
		t.Helper()
		e, err := h.iface.NewEndpoint(uct.EndpointParams{LocalAddr: local})
		if err != nil {
			t.Fatal(err)
		}
		return e.(*endpoint)
	}
	six := netip.IPv6Loopback()
	ab, ba := open(a, six), open(b, six)
	if open(a, six).iface != ab.iface || ab.iface == a.iface || open(a, loopback4).iface != a.iface || open(a, netip.Addr{}).iface != a.iface {
		t.Error("endpoints are of the wrong interfaces")
	}
	at, other := ab.InterfaceAddr()
	own, first := open(a, loopback4).InterfaceAddr()
	if !other || first || bytes.Equal(at.DeviceAddr, a.iface.DeviceAddress()) || !bytes.Equal(own.DeviceAddr, a.iface.DeviceAddress()) {
		t.Errorf("addresses %x (other %t) and %x (other %t)", at, other, own, first)
	}
	link := func(from, to *endpoint) {
		t.Helper()
		end, err := to.Address()
		if err != nil {
			t.Fatal(err)
		}
		// A connection manager passes the plain form of the address.
		if err := from.ConnectToEP(peerDeviceAddr(six), nil, end); err != nil {
			t.Fatal(err)
		}
	}
	link(ba, ab)
	link(ab, ba)
	until(t, "connect", connected(ab, ba), a, b)
	// Handlers that are set later apply to these endpoints, too.
	var got []string
	a.iface.SetAMHandler(1, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
		got = append(got, string(data))
		return nil
	})
	if err := ba.AMShort(1, 0, []byte("six"), 0, nil); err != nil {
		t.Fatal(err)
	}
	until(t, "message", func() bool { return len(got) == 1 }, a, b)
	if end, err := ba.Address(); err != nil || !ab.IsConnectedTo(peerDeviceAddr(six), end[:ifaceAddrLen], end) || ab.IsConnectedTo(b.iface.DeviceAddress(), end[:ifaceAddrLen], end) {
		t.Errorf("%x, %v: not where it leads to", end, err)
	}
	b.close()
	until(t, "failure", func() bool { return len(a.errs) == 1 }, a)
	if a.failed[0] != uct.Endpoint(ab) {
		t.Error("another endpoint has failed")
	}
	elsewhere := netip.MustParseAddr("2001:db8::7")
	if ep, err := a.iface.NewEndpoint(uct.EndpointParams{LocalAddr: elsewhere}); ep != nil || !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("an address of another machine: %v, %v", ep, err)
	}
	if err := open(a, loopback4).ConnectToEP(peerDeviceAddr(six), nil, make([]byte, epAddrLen)); !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("the other family at the interface's own address: %v", err)
	}
	if err := a.iface.Close(); err != nil {
		t.Error(err)
	}
	if ab.iface.listener.open {
		t.Error("the listener at another address stays")
	}
}
