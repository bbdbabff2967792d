//go:build linux

package rc_test

import (
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestDrain checks that messages to a draining endpoint are received and acknowledged until the
// interface is closed, and that the owner gets no more notifications.
func TestDrain(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	h := f.Open(t)
	p := newScriptedPeer(t, r, h)
	heard := 0
	h.Handle(t, 5, func(*uct.Source, []byte, *uct.AMDesc) error {
		heard++
		return nil
	})
	msg := binary.LittleEndian.AppendUint64([]byte{5}, 1)
	p.tell(msg...)
	l := p.ep.(uct.NetworkEndpoint)
	l.Drain()
	l.Drain()
	p.ep.Close() // has no effect after Drain
	for range 3 {
		p.tell(msg...)
	}
	ucttest.Settle(h)
	if heard != 4 {
		t.Errorf("%d messages of 4 are heard", heard)
	}
	// An error on a draining endpoint is not reported as a failure.
	p.tell()
	ucttest.Settle(h)
	if s := p.send(msg); s == verbs.WCSuccess {
		t.Error("acknowledged after what nobody sends")
	}
	if len(h.Failures) != 0 {
		t.Errorf("failures: %+v", h.Failures)
	}
	// A draining endpoint ends with the interface, and leaves nothing behind.
	q := newScriptedPeer(t, r, h)
	q.ep.(uct.NetworkEndpoint).Drain()
	q.tell(msg...)
}

// TestDrainWithout checks that Drain just closes an endpoint that is not connected or has failed.
func TestDrainWithout(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	h := f.Open(t)
	h.NewEndpoint(t, uct.EndpointParams{}).(uct.NetworkEndpoint).Drain()
	p := newScriptedPeer(t, r, h)
	p.tell()
	ucttest.Until(t, "the failure", func() bool { return h.Failed(p.ep) != nil }, h)
	p.ep.(uct.NetworkEndpoint).Drain()
	if n := rc.Draining(h.Iface); n != 0 {
		t.Errorf("%d drain", n)
	}
}

// TestDrainInVain checks that a draining endpoint ends as soon as its peer is known to be gone.
func TestDrainInVain(t *testing.T) {
	p, _ := leaves(t, "grant")
	h := p.Host
	p.ep.(uct.NetworkEndpoint).Drain()
	if n := rc.Draining(h.Iface); n != 1 {
		t.Fatalf("%d drain", n)
	}
	ucttest.Until(t, "the end", func() bool { return rc.Draining(h.Iface) == 0 }, h)
	ucttest.Settle(h)
	if len(h.Failures) != 0 || rc.Limbo(h.Iface) != 0 {
		t.Errorf("%+v, %d in limbo", h.Failures, rc.Limbo(h.Iface))
	}
	if free, total := rc.Credits(h.Iface); free != total {
		t.Errorf("%d credits of %d", free, total)
	}
}

// TestDrainChurn checks that few endpoints drain when both ends of connections are closed, and that
// those whose peers remain are still draining.
func TestDrainChurn(t *testing.T) {
	const stay = 3
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	a, b := f.Pair(t)
	for n := range 50 {
		there, back := a.ConnectPair(t, b)
		there.(uct.NetworkEndpoint).Drain()
		if n >= stay {
			back.Close()
		}
		ucttest.Settle(a, b)
	}
	if n := rc.Draining(a.Iface); n < stay || n > 4*stay || len(a.Failures) != 0 {
		t.Errorf("%d drain, failures %+v", n, a.Failures)
	}
}

// TestDrainLimit checks that the number of draining endpoints is bounded, and that they end when
// the device has no queue pair left.
func TestDrainLimit(t *testing.T) {
	r := rigtest.New(t, verbstest.Config{Ports: []verbstest.Port{{}}, Limits: verbstest.Limits{QPs: 300}})
	f := fixture(t, r)
	a, b := f.Pair(t)
	for range rc.MaxDraining + 20 {
		there, back := a.ConnectPair(t, b)
		there.(uct.NetworkEndpoint).Drain()
		back.Close()
	}
	if n := rc.Draining(a.Iface); n != rc.MaxDraining {
		t.Fatalf("%d drain, not %d", n, rc.MaxDraining)
	}
	for range 60 {
		a.NewEndpoint(t, uct.EndpointParams{})
	}
	if n := rc.Draining(a.Iface); n != 0 {
		t.Errorf("%d drain where others had no room", n)
	}
}
