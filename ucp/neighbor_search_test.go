package ucp

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/admit"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// seeking is an interface of tcp that must resolve the addresses of its peers first.
type seeking struct {
	uct.Iface
	uct.NetworkIface
	unknown map[string]bool // device addresses to resolve
	sought  []func(bool)    // ends of lookups
	origins []uct.Origin    // of the addresses that endpoints were created to
}

func (s *seeking) ResolveAddress(p uct.ReachableParams, done func(bool)) bool {
	if !s.unknown[string(p.DeviceAddr)] {
		return false
	}
	s.sought = append(s.sought, done)
	return true
}

func (s *seeking) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	s.origins = append(s.origins, p.Origin)
	if p.Origin == uct.OriginPeer && s.unknown[string(p.DeviceAddr)] {
		return nil, ucs.ErrUnreachable
	}
	return s.Iface.NewEndpoint(p)
}

// over ends all pending lookups, with success or not.
func (s *seeking) over(found bool) {
	if found {
		s.unknown = nil
	}
	list := s.sought
	s.sought = nil
	for _, done := range list {
		done(found)
	}
}

// newSeeking returns a worker that has not resolved the address of lo, its interface, and a peer's
// address there.
func newSeeking(t *testing.T) (v *targetWorker, s *seeking, addr *proto.WorkerAddress) {
	v = newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo", "CHECK_SOURCE", "try")
	peer := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo")
	addr = &peer.own.described
	was := v.ifaces[0].uct
	s = &seeking{Iface: was, NetworkIface: was.(uct.NetworkIface), unknown: map[string]bool{string(addr.Devices[0].Addr): true}}
	v.ifaces[0].uct = s
	t.Cleanup(func() { v.ifaces[0].uct = was })
	return v, s, addr
}

// TestKeptBack checks that a request with an unresolved address, and everything else on its
// connection, is deferred until the lookup ends, and that the request is then handled once.
func TestKeptBack(t *testing.T) {
	for _, kind := range []proto.WireupType{proto.WireupRequest, proto.WireupEpCheck} {
		v, s, addr := newSeeking(t)
		by := newLocated(loop, true)
		src := v.accounts.sourceOf(&by.Source)
		dst := map[proto.WireupType]proto.EndpointID{proto.WireupEpCheck: 0x7777}[kind]
		before := v.stats.WireupSent
		if err := v.says(by, kind, 0xABC, 0, peersID, dst, addr); err != nil {
			t.Fatal(err)
		}
		if v.stats.WireupSent != before || by.paused != 1 || len(s.sought) == 0 {
			t.Fatalf("%v: %d messages sent, paused %d times, sought %d ways", kind, v.stats.WireupSent-before, by.paused, len(s.sought))
		}
		asked := v.admission.gate.Rates.Of(src.Account().Ledger().Source()).Tokens
		s.over(true)
		if v.stats.WireupSent != before+1 || by.paused != 0 || src.deferred != nil {
			t.Errorf("%v: %d messages sent, paused %d times", kind, v.stats.WireupSent-before, by.paused)
		}
		if r := v.admission.gate.Rates.Of(src.Account().Ledger().Source()); r.Tokens != asked {
			t.Errorf("%v: counted as another request", kind)
		}
		if len(s.origins) == 0 || slices.ContainsFunc(s.origins, func(o uct.Origin) bool { return o != uct.OriginPeer }) {
			t.Errorf("%v: endpoints to addresses of origins %v", kind, s.origins)
		}
		if ep := v.toward(peersID); ep != nil {
			ep.w.ends.destroy(ep, ucs.ErrCanceled)
		}
	}
}

// TestDeferredUnresolved: no lane leads to an address that could not be resolved, and a requester
// that is gone when the search ends gets no reply.
func TestDeferredUnresolved(t *testing.T) {
	v, s, addr := newSeeking(t)
	by := newLocated("192.0.2.66:4000", false)
	s.unknown = map[string]bool{}
	far := v.far(0xABC, 66)
	s.unknown[string(far.Devices[0].Addr)] = true
	if err := v.says(by, proto.WireupRequest, 0xABC, 0, peersID, 0, far); err != nil {
		t.Fatal(err)
	}
	if by.dropped != nil {
		t.Fatal(by.dropped)
	}
	s.over(false)
	if v.toward(peersID) != nil || !errors.Is(by.dropped, ucs.ErrUnreachable) {
		t.Errorf("an endpoint to where there is no way, or dropped because of %v", by.dropped)
	}

	s.unknown[string(addr.Devices[0].Addr)] = true
	gone := newLocated(loop, true)
	if err := v.says(gone, proto.WireupRequest, 0xDEF, 0, evilID, 0, addr); err != nil {
		t.Fatal(err)
	}
	gone.Gone()
	s.over(true)
	if v.toward(evilID) != nil {
		t.Error("an endpoint for who is gone")
	}
}

// TestKeptBackOften checks that a source whose failed lookups have taken too long gets no more
// until its budget has recovered, while other sources get theirs. Concurrent lookups count once,
// successful ones not at all.
func TestKeptBackOften(t *testing.T) {
	v, s, addr := newSeeking(t)
	unknown := s.unknown
	var clock time.Duration
	v.admission.gate.Rates.Clock = func() time.Duration { return clock }
	id := proto.EndpointID(1)
	var by *located
	asks := func(uid int) (sought bool) {
		t.Helper()
		id += 2
		by = newLocated(loop, true)
		by.uid = uid
		before := len(s.sought)
		if err := v.says(by, proto.WireupRequest, 0xABC, proto.ConnSNNone, id, 0, addr); err != nil && !errors.Is(err, ucs.ErrUnreachable) {
			t.Fatal(err)
		}
		return len(s.sought) > before
	}
	for range 10 {
		if !asks(7) {
			t.Fatal("not sought for one with many connections")
		}
	}
	clock += admit.LookupBurst / 2
	s.over(false)
	for range 10 {
		if !asks(7) {
			t.Fatal("not sought for who may ask a little more")
		}
		clock += admit.LookupBurst
		s.over(true)
		s.unknown = unknown
	}
	clock += admit.LookupShare * admit.LookupBurst
	asks(7)
	clock += admit.LookupBurst - 1
	s.over(false)
	if !asks(7) {
		t.Fatal("not sought for who may ask a little more")
	}
	clock += 10
	by.Gone() // does not save the lookup's time
	s.over(false)
	if asks(7) {
		t.Error("sought for who has taken too long")
	}
	if !asks(8) {
		t.Error("not sought for another")
	}
	s.over(false)
	clock += admit.LookupShare * admit.LookupBurst
	if !asks(7) {
		t.Error("not sought for who has made up for it")
	}
	s.over(false)
}
