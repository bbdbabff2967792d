//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// TestLostReply: a reply to a wireup request is lost with the lane that carried it. Neither side
// waits forever, even if the other lanes do not know of a lost peer and error handling is off.
func TestLostReply(t *testing.T) {
	for name, mode := range map[string]ucp.ErrMode{"none": ucp.ErrModeNone, "peer": ucp.ErrModePeer} {
		t.Run(name, func(t *testing.T) {
			tr := simPairs
			tr.silent = true
			r := newRig(t, tr.with(setting{"KEEPALIVE_INTERVAL", "1ms"}))
			a, b := r.pair()
			wireups := 0
			r.sim.inject(t, func(op fault.Op) (e fault.Effect) {
				if proto.AMID(op.ID) == proto.IDWireup {
					if wireups++; wireups == 2 {
						e.Drop = ucs.ErrConnectionReset
					}
				}
				return e
			})
			there := a.connectWith(b, ucp.EndpointParams{ErrMode: mode})
			r.until("the failure of who has asked", func() bool { return there.Err() != nil })
			there.Close()
			r.endpoints(0, a, b)
			if wireups < 2 {
				t.Errorf("%d messages of wireup", wireups)
			}
		})
	}
}

// TestPairsAtOnce: both sides request pairwise lanes at the same time, and one of them selects
// lanes again for the address in the other's request. It keeps its end of the connection that the
// request came over: the other end may be a lane of the other side, which a second connection would
// leave connected to a closed end.
func TestPairsAtOnce(t *testing.T) {
	for name, mode := range map[string]ucp.ErrMode{"error mode none": ucp.ErrModeNone, "error mode peer": ucp.ErrModePeer} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, grounds["pairs"])
			a, b := r.pair()
			used := make(map[int]int) // number of uses of each endpoint of the transport
			r.sim.inject(t, func(op fault.Op) (none fault.Effect) {
				used[op.Endpoint]++
				return none
			})
			there := a.connectWith(b, ucp.EndpointParams{ErrMode: mode})
			back := b.connectWith(a, ucp.EndpointParams{ErrMode: mode})
			r.exchange(there, b, back, a)
			if len(used) != 4 { // each side has a lane for messages and one for wireup
				t.Errorf("%d endpoints of the transport were used: %v", len(used), used)
			}
			r.endpoints(1, a, b)
		})
	}
}
