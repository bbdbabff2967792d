//go:build linux

package flow

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
)

// The explorer tries everything that a network can do to two interfaces, up to a bound: each packet
// in flight may be the next to arrive, may be lost, or may arrive and stay in flight; meanwhile
// time may pass and messages may be sent. Each state is visited only once. From each state a
// network without faults must deliver the remaining messages, each once and in order, and both
// sides must come to rest.

// world is one state. Each visit repeats all actions from the start.
type world struct {
	*network
	a, b      *host
	ends      []end
	loss, dup int
	ticks     int
}

// end is an endpoint of the application.
type end struct {
	h    *host
	e    *Endpoint
	left int // messages to send
}

// start describes the first state of a world.
type start struct {
	opens    string // hosts that open endpoints, in this order: a string of 'a' and 'b'
	messages int    // for each endpoint
	loss     int
	dup      int
	ticks    int
	pairs    bool // connect by ids
	first    wire.PSN
}

func (s start) world(t testing.TB) *world {
	n := newNetwork(t)
	set := func(c *Config) { c.first = s.first }
	w := &world{network: n, a: n.add(10, set), b: n.add(20, set), loss: s.loss, dup: s.dup, ticks: s.ticks}
	if s.pairs {
		e, _ := w.a.it.OpenPair()
		f, _ := w.b.it.OpenPair()
		w.a.of(e)
		w.b.of(f)
		_ = e.ConnectPair(20, f.ID())
		_ = f.ConnectPair(10, e.ID())
		w.ends = []end{{w.a, e, s.messages}, {w.b, f, s.messages}}
		return w
	}
	for _, c := range s.opens {
		h, to := w.a, w.b
		if c == 'b' {
			h, to = w.b, w.a
		}
		w.ends = append(w.ends, end{h, h.open(to), s.messages})
	}
	n.dispatch()
	return w
}

// action is a kind of action in the high byte, and the index of its packet or endpoint in the low
// byte.
type action uint16

const (
	deliver action = iota << 8
	lose
	double
	send
	pass
)

// actions returns the actions that are possible now.
func (w *world) actions() []action {
	var acts []action
	seen := make(map[string]bool)
	for i, p := range w.air {
		key := p.to.name + string(p.data)
		if seen[key] {
			continue
		}
		seen[key] = true
		acts = append(acts, deliver|action(i))
		if w.loss > 0 {
			acts = append(acts, lose|action(i))
		}
		if w.dup > 0 {
			acts = append(acts, double|action(i))
		}
	}
	for i, e := range w.ends {
		if e.left > 0 && e.e.CanSend() {
			acts = append(acts, send|action(i))
		}
	}
	if w.ticks > 0 {
		acts = append(acts, pass)
	}
	return acts
}

// do performs an action.
func (w *world) do(a action) {
	i := int(a & 0xff)
	switch a &^ 0xff {
	case send:
		w.ends[i].left--
		w.ends[i].h.send(w.ends[i].e, 8)
		return
	case pass:
		w.ticks--
		w.tick()
		return
	case lose:
		w.loss--
		w.air = slices.Delete(slices.Clone(w.air), i, i+1)
		return
	}
	p := w.air[i]
	if a&^0xff == double {
		w.dup--
	} else {
		w.air = slices.Delete(slices.Clone(w.air), i, i+1)
	}
	p.data = bytes.Clone(p.data)
	p.to.receive(p)
	p.to.it.Dispatch()
}

// finish runs the world to its end without faults.
func (w *world) finish() {
	for i := 0; ; i++ {
		left := 0
		for k := range w.ends {
			e := &w.ends[k]
			for e.left > 0 && e.h.send(e.e, 8) {
				e.left--
			}
			left += e.left
		}
		w.settle()
		if left == 0 && !w.tick() && len(w.air) == 0 {
			break
		}
		if left != 0 {
			w.tick()
		}
		if i > 200 {
			w.t.Fatal("it does not end")
		}
	}
	for _, e := range w.ends {
		w.same(e.h, e.e)
		if c := e.h.of(e.e); c.failed != nil || c.connected > 1 {
			w.t.Fatalf("failed: %v, connected %d times", c.failed, c.connected)
		}
	}
	if c := w.a.it.Counters; c.Malformed+c.Short+c.Refused+c.WrongAck+c.WrongNumber != 0 {
		w.t.Fatalf("counters: %+v", c)
	}
}

// print returns the state as text, which is equal for equal states.
func (w *world) print() string {
	var b bytes.Buffer
	fmt.Fprint(&b, w.loss, w.dup, w.ticks)
	for _, h := range []*host{w.a, w.b} {
		it := h.it
		fmt.Fprintf(&b, "|%d", it.skipped)
		for _, e := range it.table.eps {
			if e == nil {
				continue
			}
			c := h.of(e)
			fmt.Fprint(&b, ";", e.id, e.dest, e.state, e.owed, e.psn, e.max, e.acked, e.cwnd, e.re, e.reMax, e.got, e.nackedFrom, e.early, e.nackAt,
				it.now-e.sent, it.now-e.resent, it.now-e.nackedAt, e.every, e.slot, e.fresh, c.sent, len(c.got), c.connected)
			if e.slot != none {
				fmt.Fprint(&b, "d", e.due-it.now)
			}
			for i := e.first; i != none; i = it.nodes.at(i).next {
				n := it.nodes.at(i)
				fmt.Fprint(&b, "n", n.psn, n.flags)
			}
		}
	}
	air := make([]string, len(w.air))
	for i, p := range w.air {
		air[i] = p.to.name + string(p.data)
	}
	slices.Sort(air)
	for _, s := range air {
		fmt.Fprintf(&b, "/%x", s)
	}
	for _, e := range w.ends {
		fmt.Fprint(&b, "l", e.left)
	}
	return b.String()
}

// explore visits all states within a number of actions. It returns the number of states.
func explore(t *testing.T, s start, depth int) int {
	seen := make(map[string]bool)
	level := [][]action{nil}
	failing := func(acts []action) {
		if !t.Failed() {
			return
		}
		w := s.world(t)
		for _, a := range acts {
			switch what := a &^ 0xff; what {
			case send:
				t.Logf("send on endpoint %d", a&0xff)
			case pass:
				t.Log("time passes")
			default:
				t.Logf("%s: %s to %s", map[action]string{deliver: "deliver", lose: "lose", double: "double"}[what], show(w.air[a&0xff].data), w.air[a&0xff].to.name)
			}
			w.do(a)
		}
	}
	var current []action
	defer func() { failing(current) }()
	for d := 0; d <= depth && len(level) != 0; d++ {
		var next [][]action
		for _, acts := range level {
			current = acts
			w := s.world(t)
			for _, a := range acts {
				w.do(a)
			}
			key := w.print()
			if seen[key] {
				continue
			}
			seen[key] = true
			if d < depth {
				for _, a := range w.actions() {
					next = append(next, append(slices.Clip(acts), a))
				}
			}
			w.finish()
		}
		level = next
	}
	return len(seen)
}

// TestExplore explores the setup of connections and the exchange of messages.
func TestExplore(t *testing.T) {
	for _, tc := range []struct {
		name  string
		s     start
		depth int
		least int // least number of states, to notice an exploration that has shrunk
	}{
		{"one asks", start{opens: "a", messages: 1, loss: 2, dup: 1, ticks: 2}, 9, 20000},
		{"both ask", start{opens: "ab", messages: 1, loss: 1, dup: 1, ticks: 1}, 7, 40000},
		{"both ask, many losses", start{opens: "ab", messages: 1, loss: 4, ticks: 3}, 7, 20000},
		{"twice", start{opens: "aab", messages: 1, loss: 1, dup: 1}, 6, 8000},
		{"messages one way", start{opens: "a", messages: 4, loss: 1, ticks: 2}, 10, 20000},
		{"messages both ways", start{pairs: true, messages: 3, loss: 1, dup: 1, ticks: 1}, 7, 20000},
		{"numbers go round", start{pairs: true, messages: 3, loss: 2, ticks: 2, first: 0xffff}, 7, 15000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			switch {
			case race.Enabled || testing.Short():
				tc.depth -= 2
				tc.least /= 20
			case !needtest.Full:
				tc.depth--
				tc.least /= 5
			}
			n := explore(t, tc.s, tc.depth)
			t.Logf("%d states", n)
			if n < tc.least {
				t.Errorf("only %d states", n)
			}
		})
	}
}
