package connect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/proto"
)

// The explorer tries all orders of what can happen in a scenario, and checks every world on the way
// and every world in which nothing more happens.

// flaw is what an exploration finds: how it comes about in the fewest steps.
type flaw struct {
	why   string
	trace []string
}

func (f *flaw) String() string { return f.why + ":\n\t" + strings.Join(f.trace, "\n\t") }

// visit is a world, and how it was reached.
type visit struct {
	world
	from int
	step step
}

// explore tries everything in a scenario, by a table, or what is possible in the first worlds up to a
// limit. It returns the number of worlds.
func explore(s *scenario, t rules, limit int) (int, *flaw) {
	first := s.begin()
	seen := map[world]bool{first: true}
	queue := []visit{{world: first, from: -1}}
	trace := func(k int, last ...string) (steps []string) {
		for ; k > 0; k = queue[k].from {
			steps = append([]string{queue[k].step.String()}, steps...)
		}
		return append(steps, last...)
	}
	for k := 0; k < len(queue) && k < limit; k++ {
		m := model{world: queue[k].world, s: s, table: t}
		live := false // something happens even if nothing is chosen
		for _, step := range m.steps() {
			n := model{world: queue[k].world, s: s, table: t}
			step.do(&n)
			live = live || !step.choice && n.world != queue[k].world
			why := n.flaw
			if why == "" {
				why = n.inconsistent()
			}
			if why != "" {
				return len(queue), &flaw{why, trace(k, step.String())}
			}
			if !seen[n.world] {
				seen[n.world] = true
				queue = append(queue, visit{n.world, k, step})
			}
		}
		if !live {
			if why := m.unfinished(); why != "" {
				return len(queue), &flaw{why, trace(k)}
			}
		}
	}
	if limit == everything && len(queue) >= limit {
		return len(queue), &flaw{why: "the scenario does not end"}
	}
	return len(queue), nil
}

// everything is a limit that no scenario reaches.
const everything = 1_000_000

// reread returns private data as it is after it was packed and read.
func reread(d *proto.CMData) *proto.CMData {
	b, err := d.Append(nil)
	if err != nil {
		panic(err)
	}
	got, err := proto.ParseCMData(b, nil)
	if err != nil {
		panic(err)
	}
	return &got
}

// agree lets two sides of this library decide about devices by their data.
func agree(v proto.CMVersion, server, client bool) func() (bool, bool) {
	return func() (bool, bool) {
		d := (&sender{v: v, both: client}).data()
		all, index := Devices{All: server}.Accept(d, PackedBoth(d, yield))
		return all, Devices{All: client}.Follow((&sender{v: v, index: index}).data())
	}
}

// yield yields the interface of both sides.
func yield(fn func(proto.TransportID, int) bool) { fn(transport, addrLen) }

// transport is the transport of the interface of both sides.
const transport proto.TransportID = 7

// addrLen is the length of the address of the interface.
const addrLen = 2

// scenarios lists what is explored.
func scenarios() (list []*scenario) {
	yn := map[bool]string{false: "n", true: "y"}
	for _, server := range []bool{false, true} {
		for _, client := range []bool{false, true} {
			for _, v := range []proto.CMVersion{proto.CMDataV1, proto.CMDataV2} {
				list = append(list, &scenario{
					name:    fmt.Sprintf("by socket address, data v%d, server %s, client %s", v+1, yn[server], yn[client]),
					managed: true, data: agree(v, server, client), lanes: [2]bool{true, true},
					budget: budget{losses: 1, faults: 1, copies: 2, closes: 1, reconfigs: uint8(v)},
				})
			}
		}
	}
	list = append(list, &scenario{
		name:    "by socket address, only the server uses all devices",
		managed: true, mayFail: true, data: func() (bool, bool) { return true, false }, lanes: [2]bool{true, true},
		budget: budget{faults: 1, copies: 1, closes: 1},
	})
	for _, lanes := range []bool{true, false} {
		list = append(list, &scenario{name: fmt.Sprintf("with itself, lanes %v", lanes), loop: true, lanes: [2]bool{lanes}})
	}
	for _, lanes := range [][2]bool{{true, true}, {false, false}, {true, false}, {false, true}} {
		for _, order := range []int{-1, 1, 0} {
			if order == 0 && lanes[0] != lanes[1] {
				continue // the endpoints of one worker choose alike
			}
			for _, b := range []budget{
				{losses: 1, copies: 1, reconfigs: 1},
				{faults: 1, closes: 1, copies: 1},
				{repeats: 3},
				{repeats: 1, losses: 1},
				{migrations: 1, copies: 2},
				{closes: 1, losses: 1},
			} {
				if order == 0 { // nothing is lost within a worker, and addresses are not doubted
					b.losses, b.migrations = 0, 0
					b.reconfigs = max(b.reconfigs, b.faults)
				}
				list = append(list, &scenario{
					name:  fmt.Sprintf("by worker address, lanes %v, order %d, %+v", lanes, order, b),
					lanes: lanes, order: order, budget: b, mayFail: lanes[0] != lanes[1],
				})
			}
		}
	}
	list = append(list, &scenario{
		name:  "by worker address, the sides cannot be asked",
		lanes: [2]bool{true, true}, mute: true, order: 1, budget: budget{losses: 1, copies: 1},
	})
	return list
}

// TestExplore: whatever happens, in the end both sides are open, or both have failed.
func TestExplore(t *testing.T) {
	total := 0
	for _, s := range scenarios() {
		n, f := explore(s, table, everything)
		total += n
		if f != nil {
			t.Errorf("%s: %v", s.name, f)
		}
	}
	t.Logf("%d worlds", total)
}
