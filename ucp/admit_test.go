package ucp

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestClosed: in closed mode nothing is connected for who is not known, and his
// connection is dropped; who was allowed or has an endpoint of the application's is
// served.
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
	if n := len(v.peers.byUUID); n != 0 {
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
	if n := len(v.peers.byUUID); n != 0 {
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

// TestAskRate: a crowd that starts at once is not held up, and not a request of it
// lost; who asks on and on is made to wait.
func TestAskRate(t *testing.T) {
	v := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo")
	v.log.Allow("refusing a peer's request")
	for k := range 10_000 {
		by := newLocated(fmt.Sprintf("192.0.2.1:%d", 1000+k), false)
		if v.admission.checkRate(v.accounts.sourceOf(&by.Source)) != nil || by.paused != 0 {
			t.Fatalf("process %d of a job is held up", k)
		}
	}
	r := v.admission.rates[ledger.SourceOf(newLocated("192.0.2.1:1", false).from.Addr(), -1)]
	by := newLocated("192.0.2.1:99", false)
	for k := 0; by.paused == 0; k++ {
		if k > 100*askBurst {
			t.Fatal("who asks on and on is not made to wait")
		}
		if err := v.admission.checkRate(v.accounts.sourceOf(&by.Source)); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); by.paused != 0; {
		if time.Now().After(deadline) {
			t.Fatal("the connection is never read again")
		}
		v.Progress()
	}
	r.tokens, r.updated = -askDebt-1, v.uctw.Now()+time.Hour
	// Nobody waits for an answer that does not come: the connection ends, and that is
	// counted.
	for k, kind := range []proto.WireupType{proto.WireupRequest, proto.WireupEpCheck} {
		refused := v.stats.Refused
		err := v.says(newLocated("192.0.2.1:98", false), kind, 0xABC, 0, 0x31, proto.EndpointID(k*0x7777), &v.own.described)
		ucttest.WantStatus(t, "requests without end", err, ucs.ErrExceedsLimit)
		if v.stats.Refused != refused+1 {
			t.Errorf("%v: not counted", kind)
		}
	}
	if other := newLocated("192.0.2.2:98", false); v.admission.checkRate(v.accounts.sourceOf(&other.Source)) != nil || other.paused != 0 {
		t.Error("another address pays for it")
	}
	for k := range 3 * maxRates {
		by := newLocated(fmt.Sprintf("10.0.%d.%d:1", k>>8, k&255), false)
		v.admission.checkRate(v.accounts.sourceOf(&by.Source))
		for _, r := range v.admission.rates {
			r.updated -= time.Hour
		}
	}
	if n := len(v.admission.rates); n > maxRates+1 {
		t.Errorf("%d addresses are remembered", n)
	}
}

// TestManyPeers: what is remembered of peers that came and went is bounded.
func TestManyPeers(t *testing.T) {
	v := newTarget(t)
	addr := v.own.described.Clone()
	for k := range 5 * maxIdlePeers {
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
	if n := len(v.peers.byUUID); n > maxIdlePeers || len(v.peers.idlePeers) > maxIdlePeers {
		t.Errorf("%d peers are remembered", n)
	}
}
