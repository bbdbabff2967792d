//go:build linux

package ucptest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// Transports each of which is the best for one purpose and can do little else, so that an endpoint
// has a lane for each.
var laneTransports = func() map[string]*simulated {
	const am = uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfaceAMZcopy
	const zcopy = uct.IfacePutZcopy | uct.IfaceGetZcopy
	only := func(flags uct.IfaceFlags, atomics bool, latency, bandwidth float64) func(int, *uct.IfaceAttr) {
		return func(dev int, a *uct.IfaceAttr) {
			without((am|allPuts|allGets|uct.IfaceConnectToEP)&^flags, !atomics)(dev, a)
			a.Flags |= flags
			a.Perf.Latency.C, a.Perf.BandwidthDedicated = latency, bandwidth
			a.Put.MinZcopy, a.Get.MinZcopy = 64<<10, 64<<10
		}
	}
	all := make(map[string]*simulated)
	for _, c := range []struct {
		name string
		attr func(int, *uct.IfaceAttr)
	}{
		// The lowest latency.
		{"lanemsg", only(am, false, 1e-6, 1<<30)},
		// Nearly as low, and more bandwidth.
		{"lanekeep", only(am, false, 1.001e-6, 2<<30)},
		// Has atomic operations too, a little slower than the transport that has nothing else, and
		// receives messages asynchronously.
		{"lanerma", only(am|uct.IfaceCBAsync|uct.IfacePutShort|uct.IfacePutBcopy|uct.IfaceGetBcopy, true, 1.1e-6, 16<<30)},
		{"laneamo", only(0, true, 1e-6, 1<<30)},
		{"lanebw", only(zcopy, false, 2e-6, 64<<30)},
	} {
		all[c.name] = simulate(c.name, sim.Options{
			Attr: c.attr, Keyless: c.name == "lanebw",
			DomainAttr: func(a *uct.MDAttr) { a.Flags |= uct.MDFlagInvalidateRMA },
		}).sim
	}
	return all
}()

// allLanes selects all of them.
var allLanes = transport{
	name: "lanes", sim: laneTransports["lanemsg"],
	settings: []setting{{"TLS", "lanemsg,lanekeep,lanerma,laneamo,lanebw"}},
}

// laneTraffic counts the operations over each of these transports, and messages by id: "lanemsg am
// 2".
type laneTraffic map[string]int

// laneOps are the operations other than messages.
var laneOps = map[fault.Kind]string{
	fault.PutShort: "put short", fault.PutBcopy: "put bcopy", fault.PutZcopy: "put zcopy",
	fault.GetBcopy: "get bcopy", fault.GetZcopy: "get zcopy",
	fault.AtomicPost: "atomic post", fault.AtomicFetch: "atomic fetch",
}

func watchLanes(t *testing.T) laneTraffic {
	seen := make(laneTraffic)
	for name, s := range laneTransports {
		s.inject(t, func(op fault.Op) (none fault.Effect) {
			what, ok := laneOps[op.Kind]
			if !ok {
				what = fmt.Sprintf("am %d", op.ID)
			}
			seen[name+" "+what]++
			return none
		})
	}
	return seen
}

// take returns what was seen since the last call, sorted.
func (l laneTraffic) take() string {
	var list []string
	for what := range l {
		list = append(list, what)
	}
	slices.Sort(list)
	clear(l)
	return strings.Join(list, ", ")
}

// over returns the name of a message on a transport.
func over(name string, id proto.AMID) string { return fmt.Sprintf("%s am %d", name, id) }

// TestLanePurposes checks that with a lane for each purpose all traffic goes over the lane of its
// purpose.
func TestLanePurposes(t *testing.T) {
	r := newRig(t, allLanes.with(setting{"KEEPALIVE_INTERVAL", "0"}))
	a, b := r.oneSidedPair()
	seen := watchLanes(t)
	there := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	back := b.connectWith(a, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	expect := func(what string, want ...string) {
		t.Helper()
		slices.Sort(want)
		if got := seen.take(); got != strings.Join(want, ", ") {
			t.Errorf("%s went over\n%s, want\n%s\n%s", what, got, strings.Join(want, ", "), there.Explain())
		}
	}

	r.must(there.TagSend(1, []byte("short"), nil))
	expect("a short message", over("lanemsg", proto.IDEagerOnly))

	r.exchange(there, b, back, a)
	expect("synchronous messages", over("lanerma", proto.IDWireup),
		over("lanemsg", proto.IDEagerSyncOnly), over("lanemsg", proto.IDEagerSyncAck))

	var buf [64]byte
	w := r.unpack(there, b.expose(make([]byte, 1<<20), 0))
	r.must(there.Put(buf[:], w.addr, w.key, nil))
	r.must(there.Get(buf[:], w.addr, w.key, nil))
	r.must(there.Flush(nil))
	expect("a short put and get", "lanerma put short", "lanerma get bcopy")

	r.must(there.Atomic(ucp.AtomicAdd, buf[:8], w.addr, w.key, nil))
	r.must(there.Flush(nil))
	expect("an atomic operation", "laneamo atomic post")

	long := make([]byte, 1<<20)
	r.must(there.Put(long, w.addr, w.key, nil))
	r.must(there.Flush(nil))
	expect("a long put", "lanebw put zcopy")

	recv := r.started(b.TagRecv(2, ucp.FullMask, long, nil))
	r.must(there.TagSend(2, ucttest.Pattern(len(long), 1), nil))
	r.must(recv, nil)
	ucttest.SameBytes(t, "message", long, ucttest.Pattern(len(long), 1))
	expect("a rendezvous", over("lanemsg", proto.IDRndvRTS), over("lanemsg", proto.IDRndvATS), "lanebw get zcopy")

	// Attr and Explain agree with the lanes.
	list, e := there.Attr().Transports, there.Explain()
	if len(list) != 5 || len(e.Lanes) != len(list) || len(e.Searches) == 0 {
		t.Fatalf("%d lanes, %d explained:\n%s", len(list), len(e.Lanes), e)
	}
	for i, l := range list {
		if want := fmt.Sprintf("lane[%d]: ", i); !strings.HasPrefix(e.Lanes[i], want) ||
			!strings.Contains(e.Lanes[i], l.Name+"/"+l.Device) {
			t.Errorf("lane %d is %+v, explained as %s", i, l, e.Lanes[i])
		}
	}
}

// TestKeepaliveLane checks that the keepalive's messages go over the lane that was selected for
// them.
func TestKeepaliveLane(t *testing.T) {
	r := newRig(t, allLanes.with(setting{"KEEPALIVE_INTERVAL", "1ms"}))
	a, b := r.oneSidedPair()
	there := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	back := b.connectWith(a, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	r.exchange(there, b, back, a)
	seen, check := watchLanes(t), over("lanekeep", proto.IDWireup)
	r.until("a keepalive message", func() bool { return seen[check] > 0 })
	if got := seen.take(); got != check {
		t.Errorf("keepalive went over %s, want %s", got, check)
	}
	if there.Err() != nil || back.Err() != nil {
		t.Errorf("endpoints that are alive: %v, %v", there.Err(), back.Err())
	}
}

// TestWireupOverSecondLane checks that over two devices that could be connected pairwise, such as
// two of tcp, wireup goes over the second lane and messages over the first.
func TestWireupOverSecondLane(t *testing.T) {
	r := newRig(t, simLanes)
	a, b := r.pair()
	over := make(map[proto.AMID][]int) // transport endpoints, in the order of their lanes
	r.sim.inject(t, func(op fault.Op) (none fault.Effect) {
		over[proto.AMID(op.ID)] = append(over[proto.AMID(op.ID)], op.Endpoint)
		return none
	})
	there, back := a.connect(b), b.connect(a)
	r.exchange(there, b, back, a)
	messages, wireup := over[proto.IDEagerSyncOnly], over[proto.IDWireup]
	if len(messages) != 2 || len(wireup) == 0 {
		t.Fatalf("%d messages and %d of wireup", len(messages), len(wireup))
	}
	for _, n := range wireup {
		if n != messages[0]+1 && n != messages[1]+1 {
			t.Errorf("messages went over %v, wireup over %v", messages, wireup)
		}
	}
}
