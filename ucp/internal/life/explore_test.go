package life

import (
	"fmt"
	"strings"
)

// The explorer tries all orders of events of two ends, each with the table, and a network
// between them: what the lanes carry arrives in order, what the connection manager carries
// arrives in order, and in any order with the lanes. See model_test.go for what an end does
// about its duties.

// scenario says what may happen in an exploration.
type scenario struct {
	name    string
	managed bool // by a connection manager
	deaf    bool // neither end knows "released" and "removed"
	silent  bool // lanes do not tell that the other side has closed them
	kinds   [2]opKind
	acts    [2]acts // of the applications
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
	actMatch // it receives what the peer sends
	actAgain // a message that names the peer's end comes a second time
)

// flaw is what an exploration finds: how it comes about in the fewest steps.
type flaw struct {
	why   string
	trace []string
}

func (f *flaw) String() string { return f.why + ":\n\t" + strings.Join(f.trace, "\n\t") }

// visit is a world, and how it was reached.
type visit struct {
	w    world
	from int
	step string
}

// explore tries everything in a scenario, by a table. It returns the number of worlds.
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
		live := false // something happens even if no application does anything
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
