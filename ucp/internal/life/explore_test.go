package life

import (
	"fmt"
	"strings"
)

// The explorer tries all orders of events of two endpoints, each with the table, and a network
// between them. Messages over the lanes arrive in order, and so do messages of the connection
// manager, but the two may overtake each other. How an endpoint carries out its duties is in
// model_test.go.

// scenario defines what can happen in an exploration.
type scenario struct {
	name    string
	managed bool // connected by a connection manager
	deaf    bool // neither endpoint knows "released" and "removed"
	silent  bool // an endpoint is not notified that the other side has closed its lanes
	kinds   [2]opKind
	acts    [2]acts // what each application may do
}

// acts is a set of what an application may do, each once.
type acts uint16

const (
	actClose acts = 1 << iota
	actLeave
	actGiveUp
	actForce
	actEvict
	actClaim
	actDie
	actMatch // it receives the peer's operation
	actAgain // a message that names the peer's endpoint arrives a second time
)

// flaw is a fault that an exploration finds, with the shortest sequence of steps that leads to it.
type flaw struct {
	why   string
	trace []string
}

func (f *flaw) String() string { return f.why + ":\n\t" + strings.Join(f.trace, "\n\t") }

// visit is a world that was reached, from which world, and by which step.
type visit struct {
	w    world
	from int
	step string
}

// explore tries all sequences of steps of a scenario with a table. It returns the number of worlds,
// and the first flaw.
func explore(s *scenario, t rules) (int, *flaw) {
	first := s.begin()
	seen := map[world]bool{first: true}
	queue := []visit{{w: first, from: -1}}
	trace := func(k int, last ...string) (steps []string) {
		for ; k > 0; k = queue[k].from {
			steps = append([]string{queue[k].step}, steps...)
		}
		return append(steps, last...)
	}
	for k := 0; k < len(queue); k++ {
		m := model{s: s, table: t}
		live := false // something happens even if no application acts
		for _, step := range m.steps(&queue[k].w) {
			m.w, m.flaw = queue[k].w, ""
			step.do(&m)
			live = live || !step.choice
			if m.flaw == "" {
				m.flaw = m.inconsistent()
			}
			if m.flaw != "" {
				return len(queue), &flaw{m.flaw, trace(k, step.name)}
			}
			if !seen[m.w] {
				seen[m.w] = true
				queue = append(queue, visit{m.w, k, step.name})
			}
		}
		if !live {
			m.w = queue[k].w
			if why := m.unfinished(); why != "" {
				return len(queue), &flaw{why, trace(k)}
			}
		}
		if len(queue) > 2_000_000 {
			return len(queue), &flaw{why: fmt.Sprintf("scenario %s does not end", s.name)}
		}
	}
	return len(queue), nil
}
