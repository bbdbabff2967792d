//go:build linux

package rc_test

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// TestFlowLabels checks that each connection has its own flow label, which determines the UDP port
// by which networks spread connections over links. With the setting off all have that of C UCX.
func TestFlowLabels(t *testing.T) {
	for _, own := range []string{"y", "n"} {
		r := newRig(t, verbstest.Port{})
		f := fixture(t, r, "IB_ROCE_FLOW_LABELS", own)
		a, b := f.Pair(t)
		const n = 32
		labels := make(map[uint32]bool)
		low := make(map[uint32]bool) // of the few bits that a network may hash
		for range n {
			ab, ba := a.ConnectPair(t, b)
			for _, ep := range []any{ab, ba} {
				l := rc.Way(t, ep).FlowLabel
				if l >= 1<<20 || l == 0 {
					t.Errorf("label %#x", l)
				}
				labels[l] = true
				low[l>>12] = true
			}
		}
		if own == "n" {
			if len(labels) != 1 || !labels[0xfffff] {
				t.Errorf("C's label is one of %v", labels)
			}
			continue
		}
		if len(labels) < n/2 || len(low) < n/2 {
			t.Errorf("%d connections have %d labels, and %d in their high bits", n, len(labels), len(low))
		}
	}
}

// TestTrafficClass checks that packets have the traffic class of the settings, else, with RoCE v2,
// that of the port, else the default of C UCX.
func TestTrafficClass(t *testing.T) {
	v1 := verbstest.IP("10.9.0.1")
	v1.V1 = true
	for _, test := range []struct {
		name, said string
		port       verbstest.Port
		want       uint8
	}{
		{"nobody", "auto", verbstest.Port{}, 106},
		{"the port", "auto", verbstest.Port{TrafficClass: 160}, 160},
		{"the user", "32", verbstest.Port{TrafficClass: 160}, 32},
		{"the user, none", "0", verbstest.Port{TrafficClass: 160}, 0},
		{"RoCE v1", "auto", verbstest.Port{TrafficClass: 160, GIDs: []verbstest.GID{v1}}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := fixture(t, newRig(t, test.port), "IB_TRAFFIC_CLASS", test.said)
			a, b := f.Pair(t)
			ab, _ := a.ConnectPair(t, b)
			if got := rc.Way(t, ab).TrafficClass; got != test.want {
				t.Errorf("traffic class %d, want %d", got, test.want)
			}
		})
	}
}
