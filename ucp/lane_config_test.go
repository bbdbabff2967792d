package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// askedEndpoint is a lane that counts how often it is asked for the peer.
type askedEndpoint struct {
	refuse
	asked int
}

func (e *askedEndpoint) Check(*uct.Completion) error { e.asked++; return nil }

// TestKeepaliveAsks checks that the keepalive asks the transports of the lanes that the configuration
// names, and no others.
func TestKeepaliveAsks(t *testing.T) {
	v := newTarget(t)
	ep, old := v.ep, v.ep.lanes[0]
	defer old.uct.Close()
	asked := make([]askedEndpoint, 3)
	ep.lanes = nil
	for i := range asked {
		ep.lanes = append(ep.lanes, lane{iface: old.iface, uct: &asked[i]})
	}
	cfg := *ep.cfg
	cfg.lanes.Checked = []uint8{0, 2}
	ep.cfg = &cfg
	ep.keepalive()
	if asked[0].asked != 1 || asked[1].asked != 0 || asked[2].asked != 1 {
		t.Errorf("the lanes were asked %d, %d and %d times", asked[0].asked, asked[1].asked, asked[2].asked)
	}
}
