package ucp

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// roaming returns an address of C UCX 1.13, which may connect from another address than its own, as
// its routes decide.
func (v *targetWorker) roaming(uuid uint64) *proto.WorkerAddress {
	a := v.far(uuid, 7)
	a.Devices[0].MDCaps = 0x20
	return a
}

// TestMigratedPeerCorrected: an attacker has taken the endpoint that waits for a peer which may
// migrate. A reply of the real peer, or its request from its own address, takes the endpoint back,
// and the peer may still migrate.
func TestMigratedPeerCorrected(t *testing.T) {
	const uuid = 0xABC // smaller than the uuid of any worker
	for name, say := range map[string]func(v *targetWorker, ep *Endpoint, a *proto.WorkerAddress){
		"reply": func(v *targetWorker, ep *Endpoint, a *proto.WorkerAddress) {
			none := &proto.WorkerAddress{Flags: proto.AddressHasUUID}
			if err := v.says(newLocated("192.0.2.7:4000", false), proto.WireupReply, uuid, 0, peersID, ep.localID, none); err != nil {
				v.Fatal(err)
			}
		},
		"request": func(v *targetWorker, ep *Endpoint, a *proto.WorkerAddress) {
			v.asks(newLocated("192.0.2.7:4000", false), uuid, 0, peersID, a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTarget(t, "TLS", "tcp,self", "NET_DEVICES", "lo", "CHECK_SOURCE", "try")
			a := v.roaming(uuid)
			ep, next := v.waits(a), v.waits(a)
			if err := ep.w.handshakes.request(ep); err != nil {
				t.Fatal(err)
			}
			thief := newLocated("192.0.2.66:4000", false)
			if v.asks(thief, uuid, 0, evilID, a) != ep {
				t.Fatal("the place is not taken: the test tests nothing")
			}
			if v.accounts.unbound != 3 {
				t.Errorf("the application knows somebody by that, %d endpoints are left", v.accounts.unbound)
			}
			say(v, ep, a)
			if _, waits := ep.peer.Unmatched(0); ep.remoteID != peersID || ep.peer.Contested() || waits {
				t.Errorf("the peer has said who it is, and the endpoint is with %#x", ep.remoteID)
			}
			if v.asks(newLocated("192.0.2.1:4000", false), uuid, 1, peersID+2, a) != next {
				t.Error("the peer cannot come from elsewhere, as another one has")
			}
			ep.w.ends.destroy(ep, ucs.ErrCanceled)
			next.w.ends.destroy(next, ucs.ErrCanceled)
		})
	}
}

// TestMigratedPeerMode checks that no request of a migrated peer ends an endpoint with error
// handling.
func TestMigratedPeerMode(t *testing.T) {
	v := newTarget(t, "TLS", "tcp,self", "NET_DEVICES", "lo", "CHECK_SOURCE", "try")
	a := v.roaming(0xABC)
	ep := v.waits(a)
	ep.errMode = ErrModePeer
	v.asks(newLocated("192.0.2.66:4000", false), 0xABC, 0, evilID, a)
	if ep.err != nil || ep.remoteID != 0 {
		t.Errorf("the endpoint is with %#x (%v)", ep.remoteID, ep.err)
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
}

// TestMigratedPeerToken: a worker with a token accepts a migrated peer only if the peer has proved
// that it has the worker's address, even where known peers need no proof.
func TestMigratedPeerToken(t *testing.T) {
	v := newTarget(t, "TLS", "tcp,self", "NET_DEVICES", "lo", "CHECK_SOURCE", "try", "TOKEN", "known")
	v.log.Allow("request without the token refused")
	a := v.roaming(0xABC)
	ep := v.waits(a)
	by := newLocated("192.0.2.66:4000", false)
	if err := v.says(by, proto.WireupRequest, 0xABC, 0, evilID, 0, a); !errors.Is(err, ucs.ErrRejected) || ep.remoteID != 0 {
		t.Errorf("%v, and the endpoint is with %#x", err, ep.remoteID)
	}
	v.asks(newLocated("192.0.2.7:4000", false), 0xABC, 0, peersID, a)
	if ep.remoteID != peersID {
		t.Error("the peer is not connected")
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
}

// TestPeerForgetsConnection: a connection that has ended is not kept by its peer.
func TestPeerForgetsConnection(t *testing.T) {
	v := newTarget(t, "TLS", "tcp,self", "NET_DEVICES", "lo", "CHECK_SOURCE", "y")
	a := v.far(0xABC, 7)
	ep := v.waits(a)
	by := newLocated("192.0.2.7:4000", false)
	v.asks(by, 0xABC, 0, peersID, a)
	if p := ep.peer; p.LastSource != v.accounts.sourceOf(&by.Source) {
		t.Error("the connection is not the peer's")
	}
	if by.Gone(); ep.peer.LastSource != nil {
		t.Error("the connection is kept when it has ended")
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
}

// TestRepeatedRequest: a request for an endpoint comes from its peer, but through a translated
// address, so the worker does not trust it. The worker sends its own request again: the peer has
// taken the first one as the answer to its request, and does not reply.
func TestRepeatedRequest(t *testing.T) {
	v := newTarget(t, "TLS", "tcp,self", "NET_DEVICES", "lo", "CHECK_SOURCE", "y")
	sent := func(what string, uuid uint64, sn uint16, a *proto.WorkerAddress, want uint64) {
		t.Helper()
		before := v.stats.WireupSent
		v.asks(newLocated("192.0.2.66:4000", false), uuid, sn, evilID, a)
		if got := v.stats.WireupSent - before; got != want {
			t.Errorf("%s: %d requests, want %d", what, got, want)
		}
	}
	a := v.far(1, 7)
	ep := v.waits(a)
	if err := ep.w.handshakes.request(ep); err != nil {
		t.Fatal(err)
	}
	sent("another place", 1, 0, v.far(1, 8), 0)
	sent("another uuid", 2, 0, a, 0)
	sent("another endpoint", 1, 1, a, 0)
	sent("the peer's", 1, 0, a, 1)
	sent("again", 1, 0, a, 1)
	sent("without end", 1, 0, a, 0)
	if ep.remoteID != 0 || ep.peer.Contested() || len(ep.peer.Entries()) != 1 || ep.peer.LastSource != nil {
		t.Error("something is believed of who asks")
	}
	none := &proto.WorkerAddress{Flags: proto.AddressHasUUID}
	if err := v.says(newLocated("192.0.2.66:4000", false), proto.WireupReply, 1, 0, peersID, ep.localID, none); err != nil || ep.remoteID != peersID {
		t.Errorf("the reply is not taken: %v", err)
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)

	answers := v.far(1<<64-1, 7) // this uuid has the peer reply to the worker's request
	ep = v.waits(answers)
	if err := ep.w.handshakes.request(ep); err != nil {
		t.Fatal(err)
	}
	sent("a peer that replies", 1<<64-1, 0, answers, 0)
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
}

// TestRequestTwice: an untrusted request of the peer arrives before the endpoint sends its own
// request. The endpoint sends its request twice to a peer that takes the first one as an answer,
// because that answer and the request travel over different connections and may arrive in either
// order.
func TestRequestTwice(t *testing.T) {
	v := newTarget(t, "TLS", "tcp,self", "NET_DEVICES", "lo", "CHECK_SOURCE", "y")
	requests := map[uint64]uint64{1: 2, 1<<64 - 1: 1} // wanted, by the peer's uuid
	for uuid, want := range requests {
		a := v.far(uuid, 7)
		ep := v.waits(a)
		before := v.stats.WireupSent
		v.asks(newLocated("192.0.2.66:4000", false), uuid, 0, evilID, a)
		if got := v.stats.WireupSent - before; got != 0 {
			t.Errorf("%d requests that nobody needs", got)
		}
		if err := (wireupFamily{}).provide(ep); err != nil {
			t.Fatal(err)
		}
		if got := v.stats.WireupSent - before; got != want {
			t.Errorf("%d requests to %#x, want %d", got, uuid, want)
		}
		ep.w.ends.destroy(ep, ucs.ErrCanceled)
	}
}
