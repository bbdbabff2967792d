//go:build linux

package ucptest

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// simulated is a simulated transport with faults on demand.
type simulated struct {
	net       *sim.Network
	component uct.Component

	mu   sync.Mutex // workers call the plan on several goroutines
	plan fault.Plan // guarded by mu
}

// simulate registers a simulated transport. Its plan is that of o unless a test injects another.
func simulate(name string, o sim.Options) transport {
	s := &simulated{net: sim.NewNetwork(), plan: o.Plan}
	o.Name, o.Network = name, s.net
	o.Plan = func(op fault.Op) (none fault.Effect) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.plan == nil {
			return none
		}
		return s.plan(op)
	}
	s.component = sim.New(o)
	uct.Register(s.component)
	return transport{name: name, settings: []setting{{"TLS", name}}, sim: s}
}

// inject sets a plan of faults for the rest of the test.
func (s *simulated) inject(t testing.TB, plan fault.Plan) {
	set := func(plan fault.Plan) (before fault.Plan) {
		s.mu.Lock()
		defer s.mu.Unlock()
		before, s.plan = s.plan, plan
		return before
	}
	before := set(plan)
	t.Cleanup(func() { set(before) })
}

// rough returns the transport, marked as one on which no operation can be expected to complete in
// its call.
func (tr transport) rough() transport {
	tr.few, tr.busy = true, true
	return tr
}

var (
	// simPlain has no faults.
	simPlain = simulate("sim", sim.Options{})

	// simLate completes everything late, keeps received data and interleaves the messages of
	// different endpoints.
	simLate = simulate("simlate", sim.Options{
		Latency: 2, ConnectDelay: 3, Buffered: true, KeepData: true, Reorder: 1, Plan: fault.Late(3),
	})

	// simStorm lacks resources most of the time.
	simStorm = simulate("simstorm", sim.Options{Window: 3, Plan: fault.Storm(7, 40, 4)})

	// simPlaced knows the address and process of every peer: all are in one process.
	simPlaced = simulate("simplaced", sim.Options{
		Latency: 1, Keyless: true, Place: &sim.Place{IP: netip.MustParseAddr("192.0.2.1"), Process: 77},
	})

	// simLanes has two devices and can write to the peer's memory. Messages overtake these writes.
	simLanes = simulate("simlanes", sim.Options{
		Devices: 2, Keyless: true,
		Plan: func(op fault.Op) (e fault.Effect) {
			if op.Kind == fault.PutZcopy {
				e.Late = 6
			}
			return e
		},
	})

	// simPairs connects its fast device pairwise, so that nothing can be sent before the peer has
	// answered, and has a slow device for wireup.
	simPairs = simulate("simpairs", sim.Options{Devices: 2, Keyless: true, Latency: 1, Attr: pairwise})

	// simPairsLate is simPairs with late completions.
	simPairsLate = simulate("simpairslate", sim.Options{
		Devices: 2, Latency: 2, ConnectDelay: 3, Buffered: true, Reorder: 1, Plan: fault.Late(3), Attr: pairwise,
	})

	// simKeys requires registered memory on both sides and a key in each message: two devices for
	// RDMA.
	simKeys = simulate("simkeys", sim.Options{Devices: 2, ValueKeys: true, Latency: 1, DomainAttr: needMemh})

	// simKeyPairs is simKeys with pairwise connections.
	simKeyPairs = simulate("simkeypairs", sim.Options{Devices: 2, ValueKeys: true, Attr: pairwise, DomainAttr: needMemh})

	// simMemh requires registered memory for transfers without copies.
	simMemh = func() transport {
		tr := simulate("simmemh", sim.Options{
			Devices: 2, Keyless: true, Latency: 1,
			DomainAttr: needMemh,
		}).rough()
		return tr
	}()

	// simNoMemh requires registration and supports none: everything is copied.
	simNoMemh = simulate("simnomemh", sim.Options{
		Attr: without(allPuts|allGets, false),
		DomainAttr: func(a *uct.MDAttr) {
			a.Flags = a.Flags&^uct.MDFlagRegister | uct.MDFlagNeedMemh
		},
	}).rough()

	// simLanesStorm is simLanes without resources most of the time.
	simLanesStorm = simulate("simlanesstorm", sim.Options{
		Devices: 2, Keyless: true, Latency: 1, Window: 2, Plan: fault.Storm(5, 30, 4),
	})
)

// pairwise makes device 0 one whose endpoints are connected with one endpoint of the peer, as with
// rc, and device 1 a slow one for messages to any peer, as with ud.
func pairwise(device int, a *uct.IfaceAttr) {
	if device == 0 {
		a.Flags &^= uct.IfaceConnectToIface
		return
	}
	without(allPuts|allGets, true)(device, a)
	a.Flags &^= uct.IfaceConnectToEP
	a.Perf.Latency.C *= 100
	a.Perf.BandwidthDedicated /= 100
}

// needMemh makes a domain require registered memory for transfers without copies.
func needMemh(a *uct.MDAttr) { a.Flags |= uct.MDFlagNeedMemh }
