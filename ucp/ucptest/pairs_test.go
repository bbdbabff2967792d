//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// TestLostReply: an answer that is lost with the lane that carried it leaves nobody waiting,
// also where the other lanes know nothing of their peer, and nobody has asked to be told of
// failures.
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

// TestPairsAtOnce: both sides ask for pairwise lanes at the same time, and one of them chooses
// anew toward the address in the other's request. It keeps its end of the connection that the
// question came over: the other side's end may be a lane of that one, which a second connection
// would leave with an end that is closed here.
func TestPairsAtOnce(t *testing.T) {
	for name, mode := range map[string]ucp.ErrMode{"error mode none": ucp.ErrModeNone, "error mode peer": ucp.ErrModePeer} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, grounds["pairs"])
			a, b := r.pair()
			used := make(map[int]int) // how often, by the number of the transport's endpoint
			r.sim.inject(t, func(op fault.Op) (none fault.Effect) {
				used[op.Endpoint]++
				return none
			})
			there := a.connectWith(b, ucp.EndpointParams{ErrMode: mode})
			back := b.connectWith(a, ucp.EndpointParams{ErrMode: mode})
			r.exchange(there, b, back, a)
			if len(used) != 4 { // each side has a lane for messages and one for the agreement
				t.Errorf("%d endpoints of the transport were used: %v", len(used), used)
			}
			r.endpoints(1, a, b)
		})
	}
}
