package ucp

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// roaming is an address of C UCX 1.13, which connects from where its routes lead.
func (v *targetWorker) roaming(uuid uint64) *proto.WorkerAddress {
	a := v.far(uuid, 7)
	a.Devices[0].MDCaps = 0x20
	return a
}

// TestMigratedPeerCorrected: somebody had the place of a peer that may roam. The peer's own
// word, by a reply or from where it is, takes it from him, and it may roam itself.
func TestMigratedPeerCorrected(t *testing.T) {
	const uuid = 0xABC // smaller than all others
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
			if err := ep.w.wireups.requestWireup(ep); err != nil {
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
			if ep.remoteID != peersID || ep.peer.contested || ep.peer.unmatched[0] != nil {
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

// TestMigratedPeerMode: a migrated peer's request does not end the endpoint, whatever is in it.
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

// TestRepeatedRequest: a request of an endpoint's peer that is not believed, as it comes
// from a translated address, has ours sent again: the peer has taken the first one for
// the answer to its own, and does not reply.
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
	if err := ep.w.wireups.requestWireup(ep); err != nil {
		t.Fatal(err)
	}
	sent("another place", 1, 0, v.far(1, 8), 0)
	sent("another uuid", 2, 0, a, 0)
	sent("another endpoint", 1, 1, a, 0)
	sent("the peer's", 1, 0, a, 1)
	sent("again", 1, 0, a, 1)
	sent("without end", 1, 0, a, 0)
	if ep.remoteID != 0 || ep.peer.contested || len(ep.peer.entries) != 1 || ep.peer.lastSource != nil {
		t.Error("something is believed of who asks")
	}
	none := &proto.WorkerAddress{Flags: proto.AddressHasUUID}
	if err := v.says(newLocated("192.0.2.66:4000", false), proto.WireupReply, 1, 0, peersID, ep.localID, none); err != nil || ep.remoteID != peersID {
		t.Errorf("the reply is not taken: %v", err)
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)

	answers := v.far(1<<64-1, 7) // whatever comes of its own requests
	ep = v.waits(answers)
	if err := ep.w.wireups.requestWireup(ep); err != nil {
		t.Fatal(err)
	}
	sent("a peer that replies", 1<<64-1, 0, answers, 0)
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
}

// TestRequestTwice: the peer's request was not believed before the endpoint had asked.
// What answers that is on its way over another connection than our own request, and may
// come later.
func TestRequestTwice(t *testing.T) {
	v := newTarget(t, "TLS", "tcp,self", "NET_DEVICES", "lo", "CHECK_SOURCE", "y")
	requests := map[uint64]uint64{1: 2, 1<<64 - 1: 1} // by the peer's uuid
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
