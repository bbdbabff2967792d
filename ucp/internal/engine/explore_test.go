package engine

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// flaw is what the explorer finds: how it comes about in the fewest steps.
type flaw struct {
	why   string
	trace []string
}

func (f *flaw) String() string { return f.why + ":\n\t" + strings.Join(f.trace, "\n\t") }

// exploration is all states that a machine can be in, in the order in which they are
// reached with the fewest steps.
type exploration struct {
	m      machine
	known  map[uint64]int32 // by hash; where another state has that, by the next number
	states []state
	from   []int32   // the state before
	by     []int16   // the actor whose step led to it
	took   []stepSet // and that step
	next   [][2]int32
	good   []int32 // nobody goes on, and nobody has to
	steps  stepSet // all that were taken
}

// Numbers of what makes a step: the actors come first, then events from outside.
const (
	arrives = actors     // of an actor
	cancels = 2 * actors // of an actor
	comes   = 3 * actors
)

// explore tries all interleavings of three scripts, with a number of events that
// nobody has asked for.
func explore(scripts [actors]script, events uint8, mutant mutant) (*exploration, *flaw) {
	e := &exploration{m: machine{scripts: scripts, mutant: mutant}, known: make(map[uint64]int32)}
	var s state
	s.events = events
	for a := range s.at {
		if len(scripts[a]) == 0 {
			s.at[a].pc = pcDone
		}
	}
	e.reach(&s, -1, -1)
	for i := int32(0); int(i) < len(e.states); i++ {
		if f := e.expand(i); f != nil {
			return e, f
		}
	}
	return e, e.stuck()
}

// expand makes all steps that are possible in a state.
func (e *exploration) expand(i int32) *flaw {
	m := &e.m
	moved := false
	for a := range actors {
		m.choice = 0
		for m.choices = 1; m.choice < m.choices; m.choice++ {
			s := e.states[i]
			m.took, m.choices = 0, 1
			if !m.step(&s, a) {
				break
			}
			moved = true
			if f := e.arrive(&s, i, int16(a)); f != nil {
				return f
			}
		}
	}
	m.took = 0
	for a := range actors {
		if s := e.states[i]; s.arrive(a) {
			moved = true
			if f := e.arrive(&s, i, int16(arrives+a)); f != nil {
				return f
			}
		}
	}
	if !moved {
		if why := m.quiet(&e.states[i]); why != "" {
			return e.flawAt(i, why)
		}
		e.good = append(e.good, i)
	}
	for a := range actors { // what need not happen
		if s := e.states[i]; m.cancel(&s, a) {
			e.reach(&s, i, int16(cancels+a))
		}
	}
	if s := e.states[i]; s.come() {
		e.reach(&s, i, comes)
	}
	return nil
}

// arrive notes a step that happens if nothing else does.
func (e *exploration) arrive(s *state, from int32, by int16) *flaw {
	j := e.reach(s, from, by)
	e.next = append(e.next, [2]int32{from, j})
	why := e.m.wrong
	if why == "" {
		why = e.m.inconsistent(s)
	}
	if why == "" {
		return nil
	}
	f := e.flawAt(from, why)
	f.trace = append(f.trace, describe(by, e.m.took))
	return f
}

// seed is that of the hashes of states.
var seed = maphash.MakeSeed()

func (e *exploration) reach(s *state, from int32, by int16) int32 {
	hash := maphash.Comparable(seed, *s)
	for ; ; hash++ {
		j, ok := e.known[hash]
		if !ok {
			break
		}
		if e.states[j] == *s {
			return j
		}
	}
	j := int32(len(e.states))
	e.known[hash] = j
	e.states = append(e.states, *s)
	e.from = append(e.from, from)
	e.by = append(e.by, by)
	e.took = append(e.took, e.m.took)
	e.steps |= e.m.took
	return j
}

// stuck looks for a state from which no good end can be reached any more, without help
// from outside.
func (e *exploration) stuck() *flaw {
	// Those before state j are before[first[j]:first[j+1]].
	first, before := make([]int32, len(e.states)+1), make([]int32, len(e.next))
	for _, n := range e.next {
		first[n[1]+1]++
	}
	for j := range e.states {
		first[j+1] += first[j]
	}
	for _, n := range e.next { // moves each to where the next begins
		before[first[n[1]]] = n[0]
		first[n[1]]++
	}
	copy(first[1:], first)
	first[0] = 0
	ends := make([]bool, len(e.states))
	todo := e.good
	for _, i := range todo {
		ends[i] = true
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, j := range before[first[i]:first[i+1]] {
			if !ends[j] {
				ends[j] = true
				todo = append(todo, j)
			}
		}
	}
	for i, ok := range ends {
		if !ok {
			return e.flawAt(int32(i), "it goes on for ever")
		}
	}
	return nil
}

func (e *exploration) flawAt(i int32, why string) *flaw {
	f := &flaw{why: why}
	for ; e.from[i] >= 0; i = e.from[i] {
		f.trace = append(f.trace, describe(e.by[i], e.took[i]))
	}
	for i, j := 0, len(f.trace)-1; i < j; i, j = i+1, j-1 {
		f.trace[i], f.trace[j] = f.trace[j], f.trace[i]
	}
	return f
}

func describe(by int16, took stepSet) string {
	switch {
	case by == comes:
		return "event"
	case by >= cancels:
		return fmt.Sprintf("context of %d ends", by-cancels)
	case by >= arrives:
		return fmt.Sprintf("event for %d", by-arrives)
	}
	return fmt.Sprintf("%d: %v", by, took)
}

// inconsistent says what is wrong in a state, in the middle of things.
func (m *machine) inconsistent(s *state) string {
	waiting := 0
	for k := range s.waiting {
		waiting += int(s.waiting[k].n)
		for i := range s.waiting[k].n {
			if s.at[s.waiting[k].item[i]-1].joined == 0 {
				return "somebody is in the list who has not joined"
			}
		}
	}
	for a := range s.at {
		x := &s.at[a]
		waiting -= int(x.joined)
		if (s.leader == uint8(a+1)) != (x.leads != 0) {
			return "there is more than one leader"
		}
	}
	switch {
	case waiting != 0:
		return "somebody has joined who is not in the list"
	case s.leader == 0 && s.waiting != [kinds]shortList{}:
		return "nobody leads those who wait"
	}
	return ""
}

// quiet says what is wrong in a state in which nobody goes on.
func (m *machine) quiet(s *state) string {
	for a := range s.at {
		x := &s.at[a]
		switch {
		case x.pc == pcDone:
		case x.pc == pcAwait:
			return "somebody waits for the worker, and nobody has it"
		case s.closed+s.abandoned != 0:
			return "somebody waits for what has ended"
		case s.busy():
			return "somebody waits, and nobody does what there is to do"
		case x.over != 0:
			return "somebody sleeps whose wait is over"
		case x.missed != 0:
			return "somebody waits for what has happened"
		case s.done != 0 && x.looked != 0:
			return "somebody sleeps who has looked before it was done"
		case s.unread != 0 && x.kind == Event, s.unread != 0 && x.pc == pcWatch:
			return "a signal has reached nobody"
		case x.ended != 0:
			return "somebody waits whose context has ended"
		case x.kind == Background && s.leader == 0:
			return "nobody waits, and who is to do it then does not lead"
		case x.pc == pcPark && s.leader == 0:
			return "somebody waits, and nobody leads"
		}
		if x.pc == pcDone && s.abandoned == 0 && x.done != m.scripts[a].counts() {
			return "a call was never carried out"
		}
	}
	if s.tasks.n+s.batch.n != 0 || s.owner != 0 || s.wanted != 0 {
		return "something is left in the engine"
	}
	if s.leader != 0 && s.at[s.leader-1].pc == pcDone && s.abandoned == 0 {
		return "somebody leads who does not wait"
	}
	return ""
}
