//go:build linux

package ud_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// quickly skips the cases that take as long as the timeout of a peer and do not depend on the
// configuration of the transport.
var quickly = map[string]string{
	"sources":   "takes the time that a peer has, and is the same as with defaults",
	"peer gone": "takes the time that a peer has, and is the same as with defaults",
}

// noRoom skips a case in which a sender sends more than the buffers hold to a sleeping peer.
var noRoom = map[string]string{"wakeup": "messages to a peer that sleeps have no buffers"}

// subnet returns a GID with the given subnet prefix.
func subnet(prefix ...byte) (g verbstest.GID) {
	copy(g.ID[:8], prefix)
	copy(g.ID[8:], []byte{1, 2, 3, 4, 5, 6, 7, 8})
	return g
}

// ways are the configurations in which the transport is tested.
var ways = []rigtest.Variant{
	{Name: "defaults"},
	{Name: "tiny queues", Pairs: []string{
		"UD_VERBS_TX_QUEUE_LEN", "2", "UD_VERBS_RX_QUEUE_LEN", "2", "UD_VERBS_TX_MAX_BUFS", "2",
		"UD_VERBS_TX_MAX_POLL", "1", "UD_VERBS_RX_MAX_POLL", "1",
	}, Skip: noRoom},
	{Name: "few buffers", Pairs: []string{"UD_VERBS_TX_MAX_BUFS", "3", "UD_VERBS_RX_MAX_BUFS", "5", "IB_TX_QUEUE_LEN", "9"}, Skip: noRoom},
	{Name: "window of one", Pairs: []string{"UD_MAX_WINDOW", "2"}},
	{Name: "window of two", Pairs: []string{"UD_VERBS_MAX_WINDOW", "3"}, Skip: quickly},
	{Name: "packets of 1024 bytes", Device: port(verbstest.Port{MTU: 3}), Skip: quickly},
	{Name: "packets of 512 bytes", Device: port(verbstest.Port{MTU: 2}), Skip: quickly},
	{Name: "segments of an odd size", Pairs: []string{"UD_SEG_SIZE", "1001"}, Skip: quickly},
	{Name: "IPv6", Pairs: []string{"IB_GID_INDEX", "0"}, Skip: quickly},
	{Name: "InfiniBand", Device: port(verbstest.Port{InfiniBand: true})},
	{Name: "InfiniBand with global routes", Device: port(verbstest.Port{InfiniBand: true, LMC: 2}),
		Pairs: []string{"IB_IS_GLOBAL", "y", "IB_NUM_PATHS", "4"}, Skip: quickly},
	{Name: "InfiniBand, a subnet and a partition", Device: port(verbstest.Port{
		InfiniBand: true, PKeys: []uint16{0x7fff, 0, 0x0001, 0x8002}, GIDs: []verbstest.GID{subnet(0xaa, 0xbb)},
	}), Pairs: []string{"IB_NUM_PATHS", "2"}, Skip: quickly},
	{Name: "little inline", Device: verbstest.Config{Limits: verbstest.Limits{Inline: 32}}, Pairs: []string{"IB_TX_MIN_INLINE", "32"}, Skip: quickly},
	{Name: "headers as some devices write them", Device: verbstest.Config{GRH: verbstest.GRHHalf}, Skip: quickly},
	{Name: "no headers", Device: verbstest.Config{GRH: verbstest.GRHNone}, Skip: quickly},
	{Name: "no check of addresses", Pairs: []string{"UD_VERBS_ETH_DGID_CHECK", "n"}, Skip: quickly},
	{Name: "looked after in the background", Pairs: []string{"UD_ASYNC", "y"}},
}

func TestConformance(t *testing.T) {
	for i, w := range ways {
		t.Run(w.Name, func(t *testing.T) {
			if i > 0 && !slices.Contains(w.Pairs, "UD_ASYNC") {
				needtest.Goroutines(t)
			}
			transport.Conformance(t, network(t, w.Device), w.Skip, w.Pairs...)
		})
	}
}

func TestConformanceSlow(t *testing.T) { transport.ConformanceSlow(t) }

// TestConformanceLossy runs the suite while packets are lost, duplicated and late. The users of the
// transport must not notice.
func TestConformanceLossy(t *testing.T) {
	needtest.Goroutines(t)
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	const again = "a message that is lost goes again when its sender makes progress"
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			net := network(t, verbstest.Config{})
			net.SetHook(verbstest.Random(seed, verbstest.Chances{Drop: 0.05, Copy: 0.05, Hold: 0.05}))
			skip := map[string]string{"wakeup": again, "wakeup for some events": again, "am send now": again}
			if seed > 0 {
				maps.Copy(skip, quickly)
			}
			transport.Conformance(t, net, skip)
		})
	}
}

func TestConformanceMLX5(t *testing.T) { transport.ConformanceMLX5(t) }
