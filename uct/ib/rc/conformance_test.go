//go:build linux

package rc_test

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// ways are the configurations in which the transport is tested.
var ways = []rigtest.Variant{
	{Name: "defaults"},
	{Name: "tiny queues", Pairs: []string{
		"RC_VERBS_TX_QUEUE_LEN", "2", "RC_VERBS_TX_CQ_LEN", "2", "RC_VERBS_RX_QUEUE_LEN", "2", "RC_VERBS_TX_MAX_BUFS", "2",
		"RC_VERBS_TX_MAX_POLL", "1", "RC_VERBS_RX_MAX_POLL", "1",
	}},
	{Name: "few buffers", Pairs: []string{"RC_VERBS_TX_MAX_BUFS", "3", "RC_VERBS_RX_MAX_BUFS", "5", "IB_TX_QUEUE_LEN", "9"}},
	{Name: "small window", Pairs: []string{"RC_FC_WND_SIZE", "3"}},
	{Name: "window of one", Pairs: []string{"RC_FC_WND_SIZE", "1"}},
	{Name: "no flow control", Pairs: []string{"RC_FC_ENABLE", "n"}},
	{Name: "packets of 1024 bytes", Device: rigtest.Port(verbstest.Port{MTU: 3})},
	{Name: "no zero copy", Pairs: []string{"RC_VERBS_MAX_AM_HDR", "0"}},
	{Name: "segments of an odd size", Pairs: []string{"IB_SEG_SIZE", "1001"}},
	{Name: "InfiniBand", Device: rigtest.Port(verbstest.Port{InfiniBand: true})},
	{Name: "InfiniBand with global routes", Device: rigtest.Port(verbstest.Port{InfiniBand: true, LMC: 2}),
		Pairs: []string{"IB_IS_GLOBAL", "y", "IB_NUM_PATHS", "4"}},
	{Name: "InfiniBand, a subnet and a partition", Device: rigtest.Port(verbstest.Port{
		InfiniBand: true, PKeys: []uint16{0x7fff, 0, 0x0001, 0x8002}, GIDs: []verbstest.GID{{ID: [16]byte{0xaa, 0xbb, 15: 1}}},
	}), Pairs: []string{"IB_NUM_PATHS", "2"}},
}

// raced is the number of configurations, from the first, that run under the race detector. They
// differ in which operations wait for which resources.
const raced = 3

func TestConformance(t *testing.T) {
	for i, w := range ways {
		t.Run(w.Name, func(t *testing.T) {
			if race.Enabled && i >= raced {
				t.Skip("what is in the packets, and how many may go, is nothing for the race detector")
			}
			transport.Conformance(t, rigtest.New(t, w.Device), nil, w.Pairs...)
		})
	}
}

func TestConformanceSlow(t *testing.T) { transport.ConformanceSlow(t) }

// TestConformanceLossy runs the suite while packets and acknowledgments are lost or late and
// receivers are not ready. The users of the transport must not notice.
func TestConformanceLossy(t *testing.T) {
	needtest.Goroutines(t)
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := newRig(t, verbstest.Port{}).Slow(16)
			r.SetHook(verbstest.Random(seed, verbstest.Chances{Drop: 0.05, NoAnswer: 0.05, NotReady: 0.05, Hold: 0.05}))
			transport.Conformance(t, r, nil)
		})
	}
}

func TestConformanceMLX5(t *testing.T) {
	transport.ConformanceMLX5(t)
	t.Run("5 at a time", func(t *testing.T) {
		transport.Conformance(t, rigtest.New(t, verbstest.Config{MLX5: &verbstest.MLX5{}}).Slow(5), nil)
	})
}
