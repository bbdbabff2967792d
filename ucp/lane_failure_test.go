package ucp

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestLaneGivenUp: if the connection for replies to a peer is given up, the peer is notified by the
// end of the connection on which its request came. Both directions end, or only the sending
// direction if the peer closed the connection for replies, as it may have sent messages before. A
// connection that another endpoint needs is left alone.
func TestLaneGivenUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause error
		mine  bool // the application has the endpoint
		used  string
		drops bool
	}{
		{"too many connections", fmt.Errorf("a crowd: %w", ucs.ErrNoResource), false, "", true},
		{"no descriptors", fmt.Errorf("socket: %w", ucs.ErrIO), false, "", true},
		{"no way to the peer", fmt.Errorf("connect: %w", ucs.ErrUnreachable), false, "", true},
		{"too much of something", fmt.Errorf("dropped: %w", ucs.ErrExceedsLimit), false, "", true},
		{"closed by the peer", ucs.ErrConnectionReset, false, "", false},
		{"answers of another one, given up", ucs.ErrEndpointTimeout, false, "to send", false},
		{"answers of another one, closed", ucs.ErrConnectionReset, false, "to send", false},
		{"another one's as well", ucs.ErrEndpointTimeout, false, "to ask", false},
		{"the application's", ucs.ErrNoResource, true, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, peer, _ := strangers(t)
			asks, other := newLocated(loop, true), newLocated(loop, true)
			ep := v.asks(asks, peer.uuid, 0, peersID, &peer.own.described)
			if v.asks(other, peer.uuid, 1, peersID+2, &peer.own.described) == nil || ep == nil {
				t.Fatal("no endpoints")
			}
			if c.mine {
				if mine, err := v.NewEndpoint(EndpointParams{Address: peer.own.address}); err != nil || mine != ep {
					t.Fatalf("another endpoint: %v", err)
				}
			}
			asks.shared = c.used == "to send"
			if c.used == "to ask" && v.asks(asks, peer.uuid, 2, peersID+4, &peer.own.described) == nil {
				t.Fatal("no other endpoint")
			}
			endpointError(nil, ep, c.cause)
			if (asks.dropped != nil) != c.drops || other.dropped != nil {
				t.Errorf("dropped: %v, another connection: %v", asks.dropped, other.dropped)
			}
			if ended := !c.mine && !c.drops && c.used == ""; asks.ended != ended || other.ended {
				t.Errorf("ended: %v, another connection: %v", asks.ended, other.ended)
			}
			if c.drops && !errors.Is(asks.dropped, c.cause) {
				t.Errorf("the reason is %v", asks.dropped)
			}
			if !c.mine && v.toward(peersID) != nil {
				t.Error("the endpoint is left")
			}
			if other.Gone(); v.toward(peersID+2) == nil {
				t.Error("the other endpoint is gone")
			}
		})
	}
}
