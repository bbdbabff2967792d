//go:build linux

package ud_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// lead makes an endpoint on a to an address of b's port.
type lead func(a, b *ucttest.Host, dev []byte, o uct.Origin) error

// eachLead goes through the ways in which endpoints learn where they lead to.
func eachLead(t *testing.T, fn func(t *testing.T, net *verbstest.Fabric, f ucttest.Fixture, to lead)) {
	pair := func(a, b *ucttest.Host, dev []byte, o uct.Origin) error {
		far := b.NewEndpoint(t, uct.EndpointParams{})
		ep := a.NewEndpoint(t, uct.EndpointParams{Origin: o})
		return ep.(uct.Paired).ConnectToEP(dev, nil, must(far.(uct.Paired).Address())(t))
	}
	for _, c := range []struct {
		name, transport string
		to              lead
	}{
		{"rc", "rc_verbs", pair},
		{"ud pair", "ud_verbs", pair},
		{"ud", "ud_verbs", func(a, b *ucttest.Host, dev []byte, o uct.Origin) error {
			ep, err := a.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: dev, IfaceAddr: b.Iface.Address(), Origin: o})
			if err == nil {
				ep.Close()
			}
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			net := network(t, verbstest.Config{})
			f := fixture(t, net)
			f.Transport = c.transport
			fn(t, net, f, c.to)
		})
	}
}

// TestManagersAddress: an address by which a peer says by which of ours it is reached comes from a
// connection manager of this process, or from nowhere.
func TestManagersAddress(t *testing.T) {
	eachLead(t, func(t *testing.T, _ *verbstest.Fabric, f ucttest.Fixture, to lead) {
		a, b := f.Pair(t)
		dev := b.Iface.DeviceAddress()
		for name, change := range map[string]func(*ib.Address){
			"an index":                 func(a *ib.Address) { a.HasIndex, a.GIDIndex = true, 1 },
			"any version":              func(a *ib.Address) { a.Version = ib.RoCEAny },
			"any version, by an index": func(a *ib.Address) { a.Version, a.HasIndex, a.GIDIndex = ib.RoCEAny, true, 1 },
		} {
			at := must(ib.ParseAddress(dev))(t)
			change(&at)
			packed := at.Append(nil)
			if err := a.Iface.Reachable(uct.ReachableParams{DeviceAddr: packed, IfaceAddr: b.Iface.Address()}); !errors.Is(err, ucs.ErrUnreachable) {
				t.Errorf("%s is reachable: %v", name, err)
			}
			for _, o := range []uct.Origin{uct.OriginApplication, uct.OriginPeer} {
				if err := to(a, b, packed, o); !errors.Is(err, ucs.ErrUnreachable) {
					t.Errorf("%s, from %v: %v", name, o, err)
				}
			}
			if err := to(a, b, packed, uct.OriginManager); err != nil {
				t.Errorf("%s, from a manager: %v", name, err)
			}
		}
	})
}

// TestPeersAddress: for an address that a peer has given nobody is asked; if no way is known
// there is none. The application waits.
func TestPeersAddress(t *testing.T) {
	eachLead(t, func(t *testing.T, net *verbstest.Fabric, f ucttest.Fixture, to lead) {
		a, b := f.Pair(t)
		dev := b.Iface.DeviceAddress()
		asked := 0
		net.Devices()[0].SetResolve(func(_, _ [16]byte) syscall.Errno {
			asked++
			return 0
		})
		if err := to(a, b, dev, uct.OriginPeer); !errors.Is(err, ucs.ErrUnreachable) || asked != 0 {
			t.Errorf("a way that is not known: %v, asked %d times", err, asked)
		}
		if err := to(a, b, dev, uct.OriginApplication); err != nil || asked != 1 {
			t.Errorf("the application's: %v, asked %d times", err, asked)
		}
		net.Devices()[0].SetResolve(nil)
		told := 0
		s := a.Iface.(uct.WaySeeker)
		p := uct.ReachableParams{DeviceAddr: dev, IfaceAddr: b.Iface.Address()}
		if s.SeekWay(p, func(found bool) {
			if told++; !found {
				t.Error("not found")
			}
		}) {
			ucttest.Until(t, "the end of the search", func() bool { return told > 0 }, a)
		}
		if s.SeekWay(p, nil) {
			t.Error("a way that is known is sought")
		}
		if err := to(a, b, dev, uct.OriginPeer); err != nil {
			t.Errorf("a way that is known: %v", err)
		}
		net.Devices()[0].SetResolve(func(_, _ [16]byte) syscall.Errno { return syscall.EHOSTUNREACH })
		if f.Transport == "rc_verbs" {
			if err := to(a, b, dev, uct.OriginPeer); !errors.Is(err, syscall.EHOSTUNREACH) {
				t.Errorf("a neighbor that is gone: %v", err)
			}
			if err := to(a, b, dev, uct.OriginPeer); !errors.Is(err, ucs.ErrUnreachable) || errors.Is(err, syscall.EHOSTUNREACH) {
				t.Errorf("a neighbor that has gone: %v", err)
			}
		}
		net.Devices()[0].SetResolve(nil)
	})
}

// TestSeekNothing: addresses that lead nowhere are not sought.
func TestSeekNothing(t *testing.T) {
	eachLead(t, func(t *testing.T, _ *verbstest.Fabric, f ucttest.Fixture, _ lead) {
		a := f.Open(t)
		right := must(ib.ParseAddress(a.Iface.DeviceAddress()))(t)
		v1 := right
		v1.Version = ib.RoCEv1
		for _, dev := range [][]byte{nil, {1}, v1.Append(nil), (&ib.Address{LID: 7}).Append(nil)} {
			if a.Iface.(uct.WaySeeker).SeekWay(uct.ReachableParams{DeviceAddr: dev}, func(bool) { t.Error("told") }) {
				t.Errorf("%x is sought", dev)
			}
		}
		ucttest.Settle(a)
	})
}
