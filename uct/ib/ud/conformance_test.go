//go:build linux

package ud_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// way is a way in which the transport can be set up.
type way struct {
	name   string
	device verbstest.Config
	pairs  []string
	skip   map[string]string
}

// quickly leaves out what takes as long as a peer has to answer and does not depend on how
// the transport is set up.
var quickly = map[string]string{
	"sources":   "takes the time that a peer has, and is the same as with defaults",
	"peer gone": "takes the time that a peer has, and is the same as with defaults",
}

// noRoom: the suite has a sender send more than the buffers hold to a peer that sleeps.
var noRoom = map[string]string{"wakeup": "messages to a peer that sleeps have no buffers"}

// subnet is a GID of a subnet.
func subnet(prefix ...byte) (g verbstest.GID) {
	copy(g.ID[:8], prefix)
	copy(g.ID[8:], []byte{1, 2, 3, 4, 5, 6, 7, 8})
	return g
}

func port(p verbstest.Port) verbstest.Config { return verbstest.Config{Ports: []verbstest.Port{p}} }

var ways = []way{
	{"defaults", verbstest.Config{}, nil, nil},
	{"tiny queues", verbstest.Config{}, []string{
		"UD_VERBS_TX_QUEUE_LEN", "2", "UD_VERBS_RX_QUEUE_LEN", "2", "UD_VERBS_TX_MAX_BUFS", "2",
		"UD_VERBS_TX_MAX_POLL", "1", "UD_VERBS_RX_MAX_POLL", "1",
	}, noRoom},
	{"few buffers", verbstest.Config{}, []string{"UD_VERBS_TX_MAX_BUFS", "3", "UD_VERBS_RX_MAX_BUFS", "5", "IB_TX_QUEUE_LEN", "9"}, noRoom},
	{"window of one", verbstest.Config{}, []string{"UD_MAX_WINDOW", "2"}, nil},
	{"window of two", verbstest.Config{}, []string{"UD_VERBS_MAX_WINDOW", "3"}, quickly},
	{"packets of 1024 bytes", port(verbstest.Port{MTU: 3}), nil, quickly},
	{"packets of 512 bytes", port(verbstest.Port{MTU: 2}), nil, quickly},
	{"segments of an odd size", verbstest.Config{}, []string{"UD_SEG_SIZE", "1001"}, quickly},
	{"IPv6", verbstest.Config{}, []string{"IB_GID_INDEX", "0"}, quickly},
	{"InfiniBand", port(verbstest.Port{InfiniBand: true}), nil, nil},
	{"InfiniBand with global routes", port(verbstest.Port{InfiniBand: true, LMC: 2}), []string{"IB_IS_GLOBAL", "y", "IB_NUM_PATHS", "4"}, quickly},
	{"InfiniBand, a subnet and a partition", port(verbstest.Port{
		InfiniBand: true, PKeys: []uint16{0x7fff, 0, 0x0001, 0x8002}, GIDs: []verbstest.GID{subnet(0xaa, 0xbb)},
	}), []string{"IB_NUM_PATHS", "2"}, quickly},
	{"little inline", verbstest.Config{Limits: verbstest.Limits{Inline: 32}}, []string{"IB_TX_MIN_INLINE", "32"}, quickly},
	{"headers as some devices write them", verbstest.Config{GRH: verbstest.GRHHalf}, nil, quickly},
	{"no headers", verbstest.Config{GRH: verbstest.GRHNone}, nil, quickly},
	{"no check of addresses", verbstest.Config{}, []string{"UD_VERBS_ETH_DGID_CHECK", "n"}, quickly},
	{"looked after in the background", verbstest.Config{}, []string{"UD_ASYNC", "y"}, nil},
}

// network is one device in a network. That it leaves nothing behind is checked when the
// test ends.
func network(t testing.TB, devices ...verbstest.Config) *verbstest.Fabric {
	t.Helper()
	net := verbstest.NewFabric()
	for _, c := range devices {
		net.Add(c)
	}
	t.Cleanup(func() {
		for _, d := range net.Devices() {
			if o, m := d.Objects(), d.Mapped(); o != 0 || m != 0 {
				t.Errorf("%s: %d objects and %d mapped queues are left", d.Name(), o, m)
			}
			for _, rule := range d.Broken() {
				t.Error(rule)
			}
		}
	})
	return net
}

func TestConformance(t *testing.T) {
	for i, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			if i > 0 && !slices.Contains(w.pairs, "UD_ASYNC") {
				needtest.Goroutines(t)
			}
			f := fixture(t, network(t, w.device), w.pairs...)
			f.Skip = w.skip
			ucttest.Run(t, f)
		})
	}
}

// TestConformanceSlow: devices that take their time, so that much is under way.
func TestConformanceSlow(t *testing.T) {
	needtest.Goroutines(t)
	for _, w := range ways[:3] {
		for _, pace := range []int{1, 7} {
			t.Run(fmt.Sprintf("%s, %d at a time", w.name, pace), func(t *testing.T) {
				net := network(t, w.device)
				f := fixture(t, net, w.pairs...)
				f.Component = slow(net, pace)
				if f.Skip = maps.Clone(quickly); w.skip != nil {
					maps.Copy(f.Skip, w.skip)
				}
				ucttest.Run(t, f)
			})
		}
	}
}

// TestConformanceLossy: packets are lost, doubled and late. Nothing of it is seen above.
func TestConformanceLossy(t *testing.T) {
	needtest.Goroutines(t)
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			net := network(t, verbstest.Config{})
			net.SetHook(verbstest.Random(seed, verbstest.Chances{Drop: 0.05, Copy: 0.05, Hold: 0.05}))
			f := fixture(t, net)
			f.Skip = map[string]string{
				"wakeup":                 "a message that is lost goes again when its sender makes progress",
				"wakeup for some events": "a message that is lost goes again when its sender makes progress",
				"am send now":            "a message that is lost goes again when its sender makes progress",
			}
			if seed > 0 {
				maps.Copy(f.Skip, quickly)
			}
			ucttest.Run(t, f)
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
			w.device.MLX5 = &verbstest.MLX5{StaticUARs: i%2 == 0, Version0: i == 1}
			f := fixture(t, network(t, w.device), w.pairs...)
			if f.Skip = maps.Clone(quickly); w.skip != nil {
				maps.Copy(f.Skip, w.skip)
			}
			ucttest.Run(t, f)
		})
	}
}
