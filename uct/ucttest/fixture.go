package ucttest

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// Fixture describes the transport that Run tests.
type Fixture struct {
	// Component is the component of the transport.
	Component uct.Component

	// Domain names the memory domain; empty: the first one listed.
	Domain string

	// Transport and Device name the resource. If one of them is empty, the first listed
	// resource that matches the other is used.
	Transport string
	Device    string

	// Config contains the settings for all objects that are opened. nil: defaults.
	Config *config.Set

	// Loopback says that an iface reaches only itself, as in transport "self". Both sides of a
	// test are then the same host.
	Loopback bool

	// SharedAddress says that all ifaces of a process have the same address, as in a transport
	// that addresses processes.
	SharedAddress bool

	// Silent says that the transport sends nothing when an endpoint is closed, and that a peer
	// acknowledges only when it is progressed: the peer detects the end of an endpoint only by
	// an endpoint check, and a flush waits for the peer.
	Silent bool

	// SelectiveWakeup says that the transport does not wake a worker for events that the worker
	// was not armed for.
	SelectiveWakeup bool

	// Expose makes buf accessible to peers of the domain and returns a function that ends the
	// access. nil: MemoryDomain.Register or Alloc is used.
	Expose func(md uct.MemoryDomain, buf []byte, access uct.Access) (end func() error, err error)

	// Skip maps the names of tests that do not apply to the reasons.
	Skip map[string]string
}

// resource returns the resource that the fixture names.
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

// domain returns the name of the memory domain that the fixture names, or of the first one.
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

// Open opens a host, which is closed when the test ends.
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

// Pair opens two hosts that reach each other. For a Loopback fixture both are the same host.
func (f *Fixture) Pair(t testing.TB) (a, b *Host) {
	t.Helper()
	a = f.Open(t)
	if f.Loopback {
		return a, a
	}
	return a, f.Open(t)
}
