//go:build linux

package rc_test

import (
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestLinger: the peer of an endpoint that lingers is heard and acknowledged until the interface
// is closed, and nobody else notices the endpoint.
func TestLinger(t *testing.T) {
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
	l := p.ep.(uct.Lingerer)
	l.Linger()
	l.Linger()
	p.ep.Close() // too late
	for range 3 {
		p.tell(msg...)
	}
	ucttest.Settle(h)
	if heard != 4 {
		t.Errorf("%d messages of 4 are heard", heard)
	}
	// What goes wrong on it is nobody's failure.
	p.tell()
	ucttest.Settle(h)
	if s := p.send(msg); s == verbs.WCSuccess {
		t.Error("acknowledged after what nobody sends")
	}
	if len(h.Failures) != 0 {
		t.Errorf("failures: %+v", h.Failures)
	}
	// What still lingers ends with the interface, and leaves nothing behind.
	q := newScriptedPeer(t, r, h)
	q.ep.(uct.Lingerer).Linger()
	q.tell(msg...)
}

// TestLingerWithout: an endpoint without a peer, or that has failed, is just closed.
func TestLingerWithout(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	h := f.Open(t)
	h.NewEndpoint(t, uct.EndpointParams{}).(uct.Lingerer).Linger()
	p := newScriptedPeer(t, r, h)
	p.tell()
	ucttest.Until(t, "the failure", func() bool { return h.Failed(p.ep) != nil }, h)
	p.ep.(uct.Lingerer).Linger()
	if n := rc.Lingering(h.Iface); n != 0 {
		t.Errorf("%d linger", n)
	}
}

// TestLingerInVain: what lingers for a peer that is gone ends as soon as that is known.
func TestLingerInVain(t *testing.T) {
	p, _ := leaves(t, "grant")
	h := p.host
	p.ep.(uct.Lingerer).Linger()
	if n := rc.Lingering(h.Iface); n != 1 {
		t.Fatalf("%d linger", n)
	}
	ucttest.Until(t, "the end", func() bool { return rc.Lingering(h.Iface) == 0 }, h)
	ucttest.Settle(h)
	if len(h.Failures) != 0 || rc.Limbo(h.Iface) != 0 {
		t.Errorf("%+v, %d in limbo", h.Failures, rc.Limbo(h.Iface))
	}
	if free, total := rc.Credits(h.Iface); free != total {
		t.Errorf("%d credits of %d", free, total)
	}
}

// TestLingerChurn: of connections that come and go at both ends few linger; those whose peers are
// there do.
func TestLingerChurn(t *testing.T) {
	const stay = 3
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	a, b := f.Pair(t)
	for n := range 50 {
		there, back := a.ConnectPair(t, b)
		there.(uct.Lingerer).Linger()
		if n >= stay {
			back.Close()
		}
		ucttest.Settle(a, b)
	}
	if n := rc.Lingering(a.Iface); n < stay || n > 4*stay || len(a.Failures) != 0 {
		t.Errorf("%d linger, failures %+v", n, a.Failures)
	}
}

// TestLingerLimit: only so many linger, and fewer where the device has no queue pair left.
func TestLingerLimit(t *testing.T) {
	r := newRigOf(t, verbstest.Config{Ports: []verbstest.Port{{}}, Limits: verbstest.Limits{QPs: 300}})
	f := fixture(t, r)
	a, b := f.Pair(t)
	for range rc.MaxLingering + 20 {
		there, back := a.ConnectPair(t, b)
		there.(uct.Lingerer).Linger()
		back.Close()
	}
	if n := rc.Lingering(a.Iface); n != rc.MaxLingering {
		t.Fatalf("%d linger, not %d", n, rc.MaxLingering)
	}
	for range 60 {
		a.NewEndpoint(t, uct.EndpointParams{})
	}
	if n := rc.Lingering(a.Iface); n != 0 {
		t.Errorf("%d linger where others had no room", n)
	}
}
