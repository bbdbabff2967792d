package ucp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// TestLaneGivenUp: a peer hears of it when the connection is given up over which it is
// answered, by the end of the one that it asked on: of both directions, or of that to it
// alone if it may have sent something there before it closed the other.
func TestLaneGivenUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause error
		mine  bool // the application has the endpoint
		drops bool
	}{
		{"too many connections", fmt.Errorf("a crowd: %w", ucs.ErrNoResource), false, true},
		{"no descriptors", fmt.Errorf("socket: %w", ucs.ErrIO), false, true},
		{"no way to the peer", fmt.Errorf("connect: %w", ucs.ErrUnreachable), false, true},
		{"too much of something", fmt.Errorf("dropped: %w", ucs.ErrExceedsLimit), false, true},
		{"closed by the peer", ucs.ErrConnectionReset, false, false},
		{"the application's", ucs.ErrNoResource, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, peer, _ := strangers(t)
			asks, other := newLocated(loop, true), newLocated(loop, true)
			ep := v.asks(asks, peer.uuid, 0, peersID, &peer.described)
			if v.asks(other, peer.uuid, 1, peersID+2, &peer.described) == nil || ep == nil {
				t.Fatal("no endpoints")
			}
			if c.mine {
				if mine, err := v.NewEndpoint(EndpointParams{Address: peer.address}); err != nil || mine != ep {
					t.Fatalf("another endpoint: %v", err)
				}
			}
			endpointError(nil, ep, c.cause)
			if (asks.dropped != nil) != c.drops || other.dropped != nil {
				t.Errorf("dropped: %v, another connection: %v", asks.dropped, other.dropped)
			}
			if ended := !c.mine && !c.drops; asks.ended != ended || other.ended {
				t.Errorf("ended: %v, another connection: %v", asks.ended, other.ended)
			}
			if again := (&unanswered{}); c.drops && (!errors.As(asks.dropped, &again) || again.cause != c.cause) {
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

// TestUnansweredOnce: of connections that each carry the answers of another one the last to
// end names the first reason, and that one only.
func TestUnansweredOnce(t *testing.T) {
	v, peer, _ := strangers(t)
	first := fmt.Errorf("a crowd: %w", ucs.ErrNoResource)
	reason := error(first)
	for k := range proto.EndpointID(5) {
		asks := newLocated(loop, true)
		ep := v.asks(asks, peer.uuid, uint16(k), peersID+2*k, &peer.described)
		if ep == nil {
			t.Fatal("no endpoint")
		}
		endpointError(nil, ep, fmt.Errorf("dropped: %w", reason))
		if reason = asks.dropped; !errors.Is(reason, first) {
			t.Fatalf("the reason is %v", reason)
		}
	}
	if got := strings.Count(reason.Error(), "given up"); got != 1 {
		t.Errorf("%d reasons: %v", got, reason)
	}
}
