package ucp

import (
	"errors"
	"testing"
	"time"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/admit"
	"github.com/ucx-go/ucx/ucp/internal/identity"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestClosed: in closed mode an unknown peer gets no endpoint, and its connection is dropped. A
// peer that was allowed, or to which the application has an endpoint, is served.
func TestClosed(t *testing.T) {
	v := newTarget(t, "TLS", "tcp,posix", "NET_DEVICES", "lo", "CLOSED", "y")
	peer := newTarget(t, "TLS", "tcp,posix", "NET_DEVICES", "lo")
	peer.log.Allow("request of an unknown peer refused")
	refused := func(what string, id proto.EndpointID, uuid uint64, addr *proto.WorkerAddress) {
		t.Helper()
		before := v.stats
		for _, kind := range []proto.WireupType{proto.WireupRequest, proto.WireupEpCheck} {
			dst := proto.EndpointID(0)
			if kind == proto.WireupEpCheck {
				dst = 0x7777
			}
			by := newLocated(loop, true)
			if err := v.says(by, kind, uuid, 0, id, dst, addr); !errors.Is(err, ucs.ErrRejected) {
				t.Errorf("%s: %v: %v", what, kind, err)
			}
			if by.asked != 0 {
				t.Errorf("%s: %v: it was looked for first", what, kind)
			}
		}
		if v.toward(id) != nil || v.stats.WireupSent != before.WireupSent || v.stats.Refused != before.Refused+2 {
			t.Errorf("%s: something was connected", what)
		}
	}
	refused("a stranger", 0x11, peer.uuid, &peer.own.described)
	if n := v.peers.Len(); n != 0 {
		t.Errorf("%d strangers are remembered", n)
	}
	if err := v.Allow(peer.own.address); err != nil {
		t.Fatal(err)
	}
	refused("a stranger with the peer's name", 0x13, peer.uuid, &v.own.described)
	ep := v.asks(newLocated(loop, true), peer.uuid, 0, 0x15, &peer.own.described)
	if ep == nil {
		t.Fatal("who was allowed is refused")
	}
	if err := v.Disallow(peer.own.address); err != nil {
		t.Fatal(err)
	}
	refused("who was allowed once", 0x17, peer.uuid, &peer.own.described)
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
	if n := v.peers.Len(); n != 0 {
		t.Errorf("%d peers are remembered", n)
	}

	own, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
	if err != nil {
		t.Fatal(err)
	}
	if v.asks(newLocated(loop, true), peer.uuid, 0, 0x19, &peer.own.described) != own {
		t.Error("the peer of the application's endpoint is refused")
	}
	own.w.ends.destroy(own, ucs.ErrCanceled)
	refused("whose endpoint was closed", 0x1B, peer.uuid, &peer.own.described)
	answers := func(what string, uuid uint64, want uint64) {
		t.Helper()
		before := v.stats
		err := v.says(nil, proto.WireupEpCheck, uuid, 0, 0x1D, 0x7777, &peer.own.described)
		if sent := v.stats.WireupSent - before.WireupSent; sent != want || v.stats.Refused != before.Refused+1-want || (err == nil) != (want == 1) {
			t.Errorf("%s asks through memory for the end: %v, %d answers, %d refused", what, err, sent, v.stats.Refused-before.Refused)
		}
	}
	answers("whose endpoint was closed", peer.uuid, 1)
	answers("a stranger", peer.uuid+1, 0)
	if err := v.says(nil, proto.WireupRequest, peer.uuid, 0, 0x1F, 0, &peer.own.described); !errors.Is(err, ucs.ErrRejected) {
		t.Errorf("whose endpoint was closed asks through memory for one: %v", err)
	}

	for _, bad := range []Address{nil, {0xFF}, peer.own.address[:5]} {
		if v.Allow(bad) == nil || v.Disallow(bad) == nil {
			t.Errorf("address % x is allowed", bad)
		}
	}
}

// TestRequestRate: a connection whose source sends requests too often is not read for a while. Far
// beyond the rate it is dropped, so that the peer does not wait for a reply, and this is counted.
func TestRequestRate(t *testing.T) {
	v := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo")
	v.log.Allow("refusing a peer's request")
	by := newLocated("192.0.2.1:99", false)
	id := proto.EndpointID(1)
	asks := func(by *located) {
		id += 2
		v.asks(by, 0xABC, proto.ConnSNNone, id, &v.own.described)
	}
	if asks(by); by.paused != 0 {
		t.Fatal("the first request is held up")
	}
	who := v.accounts.sourceOf(&by.Source).Account().Ledger().Source()
	for wait := time.Duration(0); wait == 0; {
		var err error
		if wait, err = v.admission.gate.Rates.Take(who, v.uctw.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if asks(by); by.paused != 1 {
		t.Fatalf("in debt: paused %d times", by.paused)
	}
	for deadline := time.Now().Add(time.Minute); by.paused != 0; {
		if time.Now().After(deadline) {
			t.Fatal("the connection is never read again")
		}
		v.Progress()
	}
	r := v.admission.gate.Rates.Of(who)
	r.Tokens, r.Updated = -admit.RequestOverdraft-1, v.uctw.Now()+time.Hour
	for k, kind := range []proto.WireupType{proto.WireupRequest, proto.WireupEpCheck} {
		refused := v.stats.Refused
		err := v.says(newLocated("192.0.2.1:98", false), kind, 0xABC, 0, 0x31, proto.EndpointID(k*0x7777), &v.own.described)
		ucttest.WantStatus(t, "requests without end", err, ucs.ErrExceedsLimit)
		if v.stats.Refused != refused+1 {
			t.Errorf("%v: not counted", kind)
		}
	}
	other := newLocated("192.0.2.2:98", false)
	if asks(other); other.paused != 0 {
		t.Error("another address pays for it")
	}
}

// TestManyPeers: a worker remembers a bounded number of peers that have no endpoint any more.
func TestManyPeers(t *testing.T) {
	v := newTarget(t)
	addr := v.own.described.Clone()
	for k := range 5 * identity.MaxIdle {
		addr.UUID = uint64(1000 + k)
		packed, err := addr.Append(nil, proto.FormWorker)
		if err != nil {
			t.Fatal(err)
		}
		ep, err := v.NewEndpoint(EndpointParams{Address: packed})
		if err != nil {
			t.Fatal(err)
		}
		if err := v.wireup(v.stranger(addr.UUID, 0)); err != nil {
			t.Fatal(err)
		}
		ep.w.ends.destroy(ep, ucs.ErrCanceled)
	}
	if n := v.peers.Len(); n > identity.MaxIdle || v.peers.Idle() > identity.MaxIdle {
		t.Errorf("%d peers are remembered", n)
	}
}
