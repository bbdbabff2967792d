//go:build linux

package ud_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// lead connects an endpoint of a to the device address dev, which has the origin o.
type lead func(a, b *ucttest.Host, dev []byte, o uct.Origin) error

// eachLead runs fn for each method by which endpoints get a remote address.
func eachLead(t *testing.T, fn func(t *testing.T, net *rigtest.Rig, f ucttest.Fixture, to lead)) {
	pair := func(a, b *ucttest.Host, dev []byte, o uct.Origin) error {
		far := b.NewEndpoint(t, uct.EndpointParams{})
		ep := a.NewEndpoint(t, uct.EndpointParams{Origin: o})
		return ep.(uct.Paired).ConnectToEP(dev, nil, rigtest.Must(far.(uct.Paired).Address())(t))
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

// TestManagersAddress checks that an address with the index of one of our own GIDs, or for any RoCE
// version, is accepted only from a connection manager of this process.
func TestManagersAddress(t *testing.T) {
	eachLead(t, func(t *testing.T, _ *rigtest.Rig, f ucttest.Fixture, to lead) {
		a, b := f.Pair(t)
		dev := b.Iface.DeviceAddress()
		for name, change := range map[string]func(*ib.Address){
			"an index":                 func(a *ib.Address) { a.HasIndex, a.GIDIndex = true, 1 },
			"any version":              func(a *ib.Address) { a.Version = ib.RoCEAny },
			"any version, by an index": func(a *ib.Address) { a.Version, a.HasIndex, a.GIDIndex = ib.RoCEAny, true, 1 },
		} {
			at := rigtest.Must(ib.ParseAddress(dev))(t)
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

// TestPeersAddress checks that an address from a peer is not resolved: without a known path it is
// unreachable. For an address from the application the call waits for the resolution.
func TestPeersAddress(t *testing.T) {
	eachLead(t, func(t *testing.T, net *rigtest.Rig, f ucttest.Fixture, to lead) {
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
		s := a.Iface.(uct.NetworkIface)
		p := uct.ReachableParams{DeviceAddr: dev, IfaceAddr: b.Iface.Address()}
		if s.ResolveAddress(p, func(found bool) {
			if told++; !found {
				t.Error("not found")
			}
		}) {
			ucttest.Until(t, "the end of the search", func() bool { return told > 0 }, a)
		}
		if s.ResolveAddress(p, nil) {
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

// TestSeekNothing checks that unreachable addresses are not resolved.
func TestSeekNothing(t *testing.T) {
	eachLead(t, func(t *testing.T, _ *rigtest.Rig, f ucttest.Fixture, _ lead) {
		a := f.Open(t)
		right := rigtest.Must(ib.ParseAddress(a.Iface.DeviceAddress()))(t)
		v1 := right
		v1.Version = ib.RoCEv1
		for _, dev := range [][]byte{nil, {1}, v1.Append(nil), (&ib.Address{LID: 7}).Append(nil)} {
			if a.Iface.(uct.NetworkIface).ResolveAddress(uct.ReachableParams{DeviceAddr: dev}, func(bool) { t.Error("told") }) {
				t.Errorf("%x is sought", dev)
			}
		}
		ucttest.Settle(a)
	})
}
