//go:build linux

package rc_test

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// ways are the ways in which the transport can be set up.
var ways = []struct {
	name  string
	ports []verbstest.Port
	pairs []string
}{
	{"defaults", []verbstest.Port{{}}, nil},
	{"tiny queues", []verbstest.Port{{}}, []string{
		"RC_VERBS_TX_QUEUE_LEN", "2", "RC_VERBS_TX_CQ_LEN", "2", "RC_VERBS_RX_QUEUE_LEN", "2", "RC_VERBS_TX_MAX_BUFS", "2",
		"RC_VERBS_TX_MAX_POLL", "1", "RC_VERBS_RX_MAX_POLL", "1",
	}},
	{"few buffers", []verbstest.Port{{}}, []string{"RC_VERBS_TX_MAX_BUFS", "3", "RC_VERBS_RX_MAX_BUFS", "5", "IB_TX_QUEUE_LEN", "9"}},
	{"small window", []verbstest.Port{{}}, []string{"RC_FC_WND_SIZE", "3"}},
	{"window of one", []verbstest.Port{{}}, []string{"RC_FC_WND_SIZE", "1"}},
	{"no flow control", []verbstest.Port{{}}, []string{"RC_FC_ENABLE", "n"}},
	{"packets of 1024 bytes", []verbstest.Port{{MTU: 3}}, nil},
	{"no zero copy", []verbstest.Port{{}}, []string{"RC_VERBS_MAX_AM_HDR", "0"}},
	{"segments of an odd size", []verbstest.Port{{}}, []string{"IB_SEG_SIZE", "1001"}},
	{"InfiniBand", []verbstest.Port{{InfiniBand: true}}, nil},
	{"InfiniBand with global routes", []verbstest.Port{{InfiniBand: true, LMC: 2}}, []string{"IB_IS_GLOBAL", "y", "IB_NUM_PATHS", "4"}},
	{"InfiniBand, a subnet and a partition", []verbstest.Port{{
		InfiniBand: true, PKeys: []uint16{0x7fff, 0, 0x0001, 0x8002}, GIDs: []verbstest.GID{{ID: [16]byte{0xaa, 0xbb, 15: 1}}},
	}}, []string{"IB_NUM_PATHS", "2"}},
}

// raced is how many of the ways, the first ones, the race detector sees: they differ in who waits
// for what.
const raced = 3

func TestConformance(t *testing.T) {
	for i, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			if race.Enabled && i >= raced {
				t.Skip("what is in the packets, and how many may go, is nothing for the race detector")
			}
			ucttest.Run(t, fixture(t, newRig(t, w.ports...), w.pairs...))
		})
	}
}

// TestConformanceSlow: devices that take their time, so that much is under way.
func TestConformanceSlow(t *testing.T) {
	needtest.Goroutines(t)
	for _, w := range ways[:3] {
		for _, pace := range []int{1, 7} {
			t.Run(fmt.Sprintf("%s, %d at a time", w.name, pace), func(t *testing.T) {
				ucttest.Run(t, fixture(t, newRig(t, w.ports...).slow(pace), w.pairs...))
			})
		}
	}
}

// TestConformanceLossy: packets and answers are lost and come late, and receivers are not
// ready. Nothing of it is seen above.
func TestConformanceLossy(t *testing.T) {
	needtest.Goroutines(t)
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := newRig(t, verbstest.Port{}).slow(16)
			r.net.SetHook(verbstest.Random(seed, verbstest.Chances{Drop: 0.05, NoAnswer: 0.05, NotReady: 0.05, Hold: 0.05}))
			ucttest.Run(t, fixture(t, r))
		})
	}
}

// TestConformanceMLX5: devices as of mlx5_ib, whose doorbells and records are memory.
func TestConformanceMLX5(t *testing.T) {
	needtest.Goroutines(t)
	for i, w := range ways {
		if i >= 3 && w.name != "InfiniBand" {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			cfg := verbstest.Config{Ports: w.ports, MLX5: &verbstest.MLX5{StaticUARs: i%2 == 0, Version0: i == 1}}
			ucttest.Run(t, fixture(t, newRigOf(t, cfg), w.pairs...))
		})
	}
	t.Run("5 at a time", func(t *testing.T) {
		ucttest.Run(t, fixture(t, newRigOf(t, verbstest.Config{MLX5: &verbstest.MLX5{}}).slow(5)))
	})
}
