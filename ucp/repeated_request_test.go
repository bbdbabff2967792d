package ucp

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucs"
)

// TestRequestRepeated: an endpoint whose request has no reply for a whole interval of the keepalive
// repeats it, because the reply may be lost. C UCX would open another endpoint for it.
func TestRequestRepeated(t *testing.T) {
	for _, c := range []struct {
		name string
		caps uint8 // capabilities of memory domains in the peer's address
		want []uint64
	}{
		{"this library", 0, []uint64{0, 1, 2, 2}},
		{"C UCX", 1, []uint64{0, 0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, peer, _ := strangers(t)
			ep, err := v.NewEndpoint(EndpointParams{Address: peer.own.address})
			if err != nil {
				t.Fatal(err)
			}
			ep.dest.address.Devices[0].MDCaps = c.caps
			if err := v.handshakes.request(ep); err != nil || ep.handshake.Stage != connect.Requested {
				t.Fatal(ep.handshake.Stage, err)
			}
			sent := v.stats.WireupSent
			for round, want := range c.want {
				if ep.keepalive(); v.stats.WireupSent-sent != want {
					t.Errorf("round %d: %d requests are repeated, want %d", round, v.stats.WireupSent-sent, want)
				}
			}
		})
	}
}

// TestRequestAnsweredAgain: a request that the peer repeats is answered once more. If the endpoint
// has failed, the answer says so, and no other endpoint is opened.
func TestRequestAnsweredAgain(t *testing.T) {
	for _, mine := range []bool{true, false} {
		t.Run(fmt.Sprintf("of the application %v", mine), func(t *testing.T) {
			v, peer, _ := strangers(t)
			if mine {
				if _, err := v.NewEndpoint(EndpointParams{Address: peer.own.address}); err != nil {
					t.Fatal(err)
				}
			}
			ask := func() (*Endpoint, uint64) {
				sent := v.stats.WireupSent
				return v.asks(newLocated(loop, true), peer.uuid, 0, peersID, &peer.own.described), v.stats.WireupSent - sent
			}
			ep, _ := ask()
			if again, sent := ask(); again != ep || sent != 0 {
				t.Fatalf("another endpoint: %v, %d answers while the first is being sent", again != ep, sent)
			}
			until(t, "reply", func() bool { return ep.state&epReplied != 0 }, v, peer)
			if again, sent := ask(); again != ep || sent != 1 || ep.handshake.Stage != connect.Open {
				t.Fatalf("another endpoint: %v, %d answers, stage %v", again != ep, sent, ep.handshake.Stage)
			}
			if mine { // another would end when it fails
				ep.fail(ucs.ErrConnectionReset)
			}
			for _, want := range []uint64{1, 0} { // no more often than a peer repeats its request
				if again, sent := ask(); again != ep || sent != want {
					t.Errorf("another endpoint: %v, %d answers, want %d", again != ep, sent, want)
				}
			}
		})
	}
}

// TestRequestOfUsedID: C UCX uses the id of a closed endpoint again. The request of another endpoint with the
// id of one whose counterpart here has failed is no repeated request: an endpoint is opened for it.
func TestRequestOfUsedID(t *testing.T) {
	v, peer, _ := strangers(t)
	if _, err := v.NewEndpoint(EndpointParams{Address: peer.own.address}); err != nil {
		t.Fatal(err)
	}
	const id = 0x1000
	ask := func(sn uint16) *Endpoint {
		return v.asks(newLocated(loop, true), peer.uuid, sn, id, &peer.own.described)
	}
	ep := ask(0)
	until(t, "reply", func() bool { return ep.state&epReplied != 0 }, v, peer)
	ep.fail(ucs.ErrConnectionReset)
	sent := v.stats.WireupSent
	other := ask(1)
	if other == ep || other == nil || other.err != nil || other.remoteID != id {
		t.Fatalf("no endpoint for the other request: %v", other)
	}
	until(t, "reply", func() bool { return other.state&epReplied != 0 }, v, peer)
	if n := v.stats.WireupSent - sent; n != 1 {
		t.Errorf("%d wireup messages, want the reply alone", n)
	}
}
