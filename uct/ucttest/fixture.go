package ucttest

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// Fixture says what Run tests.
type Fixture struct {
	// Component is the family of the transport.
	Component uct.Component

	// Domain names the memory domain; empty: the first one listed.
	Domain string

	// Transport and Device name the resource. Empty: the first one listed that
	// fits the other.
	Transport string
	Device    string

	// Config is given to everything that is opened. nil: defaults.
	Config *config.Set

	// Loopback says that an iface reaches itself and nothing else, as that of
	// transport "self". Both sides of a test are then the same host.
	Loopback bool

	// SharedAddress says that all ifaces of a process have the same address, as
	// those of a transport that addresses processes.
	SharedAddress bool

	// Silent says that nothing is said on the wire when an endpoint ends, and that a peer
	// acknowledges only when it makes progress: the end of an endpoint shows at the
	// other side when that is asked, and a flush waits for the peer.
	Silent bool

	// Expose makes buf accessible to peers of the domain and returns a function
	// that ends it. nil: MemoryDomain.Register is used.
	Expose func(md uct.MemoryDomain, buf []byte, access uct.Access) (end func() error, err error)

	// Skip holds tests that do not apply, with the reason.
	Skip map[string]string
}

// resource returns the resource the fixture means.
func (f *Fixture) resource(t testing.TB, md uct.MemoryDomain) uct.Resource {
	t.Helper()
	list, err := md.Resources()
	if err != nil {
		t.Fatalf("listing resources: %v", err)
	}
	for _, r := range list {
		if (f.Transport == "" || f.Transport == r.Transport) && (f.Device == "" || f.Device == r.Device) {
			return r
		}
	}
	t.Fatalf("no resource %q on device %q among %v", f.Transport, f.Device, list)
	return uct.Resource{}
}

// domain returns the name of the memory domain the fixture means.
func (f *Fixture) domain(t testing.TB) string {
	t.Helper()
	if f.Domain != "" {
		return f.Domain
	}
	list, err := f.Component.MemoryDomains(f.Config)
	if err != nil || len(list) == 0 {
		t.Fatalf("component %q lists memory domains %v, error %v", f.Component.Name(), list, err)
	}
	return list[0].Name
}

// Open opens a host. It is closed when the test ends.
func (f *Fixture) Open(t testing.TB) *Host {
	t.Helper()
	h := &Host{fixture: f}
	t.Cleanup(func() { h.Close(t) })
	var err error
	if h.Worker, err = uct.NewWorker(); err != nil {
		t.Fatalf("new worker: %v", err)
	}
	if h.Domain, err = f.Component.OpenMD(f.domain(t), f.Config); err != nil {
		t.Fatalf("opening memory domain: %v", err)
	}
	r := f.resource(t, h.Domain)
	iface, err := h.Domain.OpenIface(h.Worker, uct.IfaceParams{
		Transport: r.Transport,
		Device:    r.Device,
		OnError:   h.onError,
	}, f.Config)
	if err != nil {
		needtest.Refused(t, fmt.Errorf("opening iface %v: %w", r, err))
		t.Fatalf("opening iface %v: %v", r, err)
	}
	h.Iface = iface
	return h
}

// Pair opens two hosts that reach each other; for a Loopback fixture both are
// the same.
func (f *Fixture) Pair(t testing.TB) (a, b *Host) {
	t.Helper()
	a = f.Open(t)
	if f.Loopback {
		return a, a
	}
	return a, f.Open(t)
}
