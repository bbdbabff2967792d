package ucttest

import (
	"reflect"
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// Host is one side of a test: a worker with one iface and one memory domain.
type Host struct {
	Worker *uct.Worker
	Domain uct.MemoryDomain
	Iface  uct.Iface

	// Failures are the failures that the iface has reported.
	Failures []Failure

	fixture   *Fixture
	endpoints []uct.Endpoint
	memory    []*Memory
}

// Failure is a call of IfaceParams.OnError.
type Failure struct {
	Endpoint uct.Endpoint
	UserData any
	Err      error
}

func (h *Host) onError(ep uct.Endpoint, userData any, err error) {
	h.Failures = append(h.Failures, Failure{ep, userData, err})
}

// Failed returns the first error reported for ep, or nil if there was none.
func (h *Host) Failed(ep uct.Endpoint) error {
	for _, f := range h.Failures {
		if f.Endpoint == ep {
			return f.Err
		}
	}
	return nil
}

// Connect creates an endpoint to another host. The endpoint is closed with h.
func (h *Host) Connect(t testing.TB, to *Host) uct.Endpoint {
	t.Helper()
	ep, _ := h.ConnectPair(t, to)
	return ep
}

// ConnectPair creates an endpoint to another host. If the transport connects endpoints in
// pairs, back is the endpoint of the other host; otherwise it is nil.
func (h *Host) ConnectPair(t testing.TB, to *Host) (there, back uct.Endpoint) {
	t.Helper()
	return h.connectPair(t, to, nil)
}

// connectPair is like ConnectPair, with user data for the first endpoint.
func (h *Host) connectPair(t testing.TB, to *Host, userData any) (there, back uct.Endpoint) {
	t.Helper()
	if h.Iface.Attr().Flags.Has(uct.IfaceConnectToIface) {
		return h.NewEndpoint(t, uct.EndpointParams{
			DeviceAddr: to.Iface.DeviceAddress(),
			IfaceAddr:  to.Iface.Address(),
			UserData:   userData,
		}), nil
	}
	there = h.NewEndpoint(t, uct.EndpointParams{UserData: userData})
	back = to.NewEndpoint(t, uct.EndpointParams{})
	connectTo(t, there, to.Iface, back)
	connectTo(t, back, h.Iface, there)
	return there, back
}

// connectTo connects ep to the endpoint peer. The parameter of is the iface of that endpoint.
func connectTo(t testing.TB, ep uct.Endpoint, of uct.Iface, peer uct.Endpoint) {
	t.Helper()
	addr, err := optional[uct.Paired](t, peer).Address()
	if err != nil {
		t.Fatalf("endpoint address: %v", err)
	}
	if err := optional[uct.Paired](t, ep).ConnectToEP(of.DeviceAddress(), of.Address(), addr); err != nil {
		t.Fatalf("connecting endpoints: %v", err)
	}
}

// optional returns ep as the interface T, an optional interface that the attributes of the iface
// announce. It fails the test if ep does not implement T.
func optional[T any](t testing.TB, ep uct.Endpoint) T {
	t.Helper()
	part, ok := ep.(T)
	if !ok {
		t.Fatalf("the endpoint does not implement %v, which its iface announces", reflect.TypeFor[T]())
	}
	return part
}

// NewEndpoint creates an endpoint that is closed with h.
func (h *Host) NewEndpoint(t testing.TB, p uct.EndpointParams) uct.Endpoint {
	t.Helper()
	ep, err := h.Iface.NewEndpoint(p)
	if err != nil {
		t.Fatalf("new endpoint: %v", err)
	}
	h.endpoints = append(h.endpoints, ep)
	return ep
}

// Handle sets the handler of an id.
func (h *Host) Handle(t testing.TB, id uct.AMID, fn uct.AMHandler) {
	t.Helper()
	if err := h.Iface.SetAMHandler(id, fn); err != nil {
		t.Fatalf("setting handler %d: %v", id, err)
	}
}

// Close closes all objects of the host. It is idempotent, and tests need not call it.
func (h *Host) Close(t testing.TB) {
	t.Helper()
	for _, ep := range h.endpoints {
		ep.PendingPurge(func(*uct.Pending) {})
		ep.Close()
	}
	h.endpoints = nil
	for _, m := range h.memory {
		m.Close(t)
	}
	if h.Iface != nil {
		if err := h.Iface.Close(); err != nil {
			t.Errorf("closing iface: %v", err)
		}
		h.Iface = nil
	}
	if h.Domain != nil {
		if err := h.Domain.Close(); err != nil {
			t.Errorf("closing memory domain: %v", err)
		}
		h.Domain = nil
	}
	if h.Worker != nil {
		if err := h.Worker.Close(); err != nil {
			t.Errorf("closing worker: %v", err)
		}
		h.Worker = nil
	}
}
