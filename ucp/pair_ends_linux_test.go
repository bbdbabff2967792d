package ucp

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// TestLanesForEnds: who answers a request for lanes has one for each end that the peer
// names, and none where it names no end.
func TestLanesForEnds(t *testing.T) {
	d := newDuo(t, "TLS", "tcp")
	choose := func(ends int) (proto.LaneConfig, error) {
		addr := d.c.described.Clone()
		addr.Ifaces(func(_ int, _ *proto.AddressDevice, f *proto.AddressIface) bool {
			f.EpAddrs = make([]proto.AddressEp, ends)
			return true
		})
		rules := laneRules{cm: true, ends: addr}
		chosen, _, err := d.s.selectLanes(addr, ErrModePeer, rules)
		if err != nil {
			return chosen, err
		}
		return d.s.withEnds(chosen, addr, ErrModePeer, &rules), nil
	}
	one, err := choose(1)
	if err != nil {
		t.Fatal(err)
	}
	if len(one.Lanes) != 1 || one.Paired != 1 || one.AM != 0 {
		t.Fatalf("for one end: %+v", one)
	}
	for _, ends := range []int{3, proto.MaxLanes, 200} {
		c, err := choose(ends)
		if err != nil {
			t.Fatal(err)
		}
		if n := min(ends, proto.MaxLanes); len(c.Lanes) != n || c.Paired != 1<<n-1 {
			t.Errorf("for %d ends: %d lanes, pairwise are %#x", ends, len(c.Lanes), c.Paired)
		}
		if c.AM != 0 || c.Lanes[0].Types != one.Lanes[0].Types {
			t.Errorf("for %d ends: the first lane is for %b", ends, c.Lanes[0].Types)
		}
		for k, l := range c.Lanes[1:] {
			if l.Types != 0 || l.Local != c.Lanes[0].Local || l.Remote != c.Lanes[0].Remote {
				t.Errorf("for %d ends: lane %d is %+v", ends, k+1, l)
			}
		}
	}
	if _, err := choose(0); !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("for no end: %v", err)
	}
}
