package ucttest

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// testAddresses checks the addresses of two hosts, and that the first host reaches the second.
func testAddresses(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	for _, h := range []*Host{a, b} {
		attr := h.Iface.Attr()
		dev, addr := h.Iface.DeviceAddress(), h.Iface.Address()
		if len(dev) != attr.DeviceAddrLen || len(addr) != attr.IfaceAddrLen {
			t.Errorf("addresses of %d and %d bytes, attributes say %d and %d",
				len(dev), len(addr), attr.DeviceAddrLen, attr.IfaceAddrLen)
		}
		if !bytes.Equal(dev, h.Iface.DeviceAddress()) || !bytes.Equal(addr, h.Iface.Address()) {
			t.Error("addresses change")
		}
	}
	if !f.Loopback && !f.SharedAddress && len(a.Iface.Address()) > 0 && bytes.Equal(a.Iface.Address(), b.Iface.Address()) {
		t.Error("two ifaces have the same address")
	}
	p := uct.ReachableParams{DeviceAddr: b.Iface.DeviceAddress(), IfaceAddr: b.Iface.Address()}
	if err := a.Iface.Reachable(p); err != nil {
		t.Errorf("peer is not reachable: %v", err)
	}
	a.Connect(t, b)
	if a.Iface.Attr().Flags.Has(uct.IfaceConnectToEP) {
		addr, err := optional[uct.Paired](t, a.NewEndpoint(t, uct.EndpointParams{})).Address()
		if err != nil || len(addr) != a.Iface.Attr().EpAddrLen {
			t.Errorf("endpoint address of %d bytes, attributes say %d, error %v",
				len(addr), a.Iface.Attr().EpAddrLen, err)
		}
	}
}

// testHostileAddresses passes addresses that are truncated, extended or random.
func testHostileAddresses(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	dev, addr := b.Iface.DeviceAddress(), b.Iface.Address()
	reachable := func(dev, addr []byte) bool {
		err := a.Iface.Reachable(uct.ReachableParams{DeviceAddr: dev, IfaceAddr: addr})
		if err != nil {
			WantStatus(t, "unreachable address", err, ucs.ErrUnreachable)
		}
		return err == nil
	}
	if len(dev)+len(addr) > 0 && reachable(nil, nil) {
		t.Error("the empty address is reachable")
	}
	// The iface may refuse the endpoint, or the endpoint may fail later.
	try := func(dev, addr []byte) {
		reachable(dev, addr)
		if ep, err := a.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: dev, IfaceAddr: addr}); err == nil {
			Progress(a, b)
			ep.Close()
		}
	}
	for n := range dev {
		try(dev[:n], addr)
	}
	for n := range addr {
		try(dev, addr[:n])
	}
	for seed := range uint64(200) {
		garbage := Pattern(int(seed)%64, seed)
		reachable(garbage, addr)
		reachable(dev, garbage)
		reachable(garbage, garbage)
		reachable(append(bytes.Clone(dev), garbage...), addr)
		reachable(dev, append(bytes.Clone(addr), garbage...))
	}
	for i := range 8 * len(dev) {
		bad := bytes.Clone(dev)
		bad[i/8] ^= 1 << (i % 8)
		reachable(bad, addr)
	}
	// The iface still works.
	if !reachable(dev, addr) {
		t.Error("the peer's own address is not reachable any more")
	}
	if a.Iface.Attr().NumPaths < 1<<30 {
		_, err := a.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: dev, IfaceAddr: addr, PathIndex: 1 << 30})
		WantStatus(t, "endpoint on a path that does not exist", err, ucs.ErrInvalidParam)
	}
	Settle(a, b)
}

// testLoopbackOnly checks that an iface of a loopback transport reaches no other iface.
func testLoopbackOnly(t *testing.T, f *Fixture) {
	if !f.Loopback {
		t.Skip("not a loopback transport")
	}
	a, b := f.Open(t), f.Open(t)
	p := uct.ReachableParams{DeviceAddr: b.Iface.DeviceAddress(), IfaceAddr: b.Iface.Address()}
	WantStatus(t, "reaching another iface", a.Iface.Reachable(p), ucs.ErrUnreachable)
	_, err := a.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: p.DeviceAddr, IfaceAddr: p.IfaceAddr})
	WantStatus(t, "endpoint to another iface", err, ucs.ErrUnreachable)
}
