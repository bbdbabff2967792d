package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// roles are what an actor may do.
var roles = map[string]script{
	"submit":   {{does: submit}},
	"thrice":   {{does: submit}, {does: submit}, {does: submit}},
	"ask":      {{does: ask}},
	"both":     {{does: submit}, {does: ask}},
	"await":    {{does: await}},
	"then":     {{does: submit}, {does: await}, {does: submit}},
	"cancel":   {{does: await, cancel: true}},
	"again":    {{does: await, cancel: true}, {does: await}},
	"run":      {{does: lead, cancel: true}},
	"event":    {{does: event, cancel: true}},
	"poll":     {{does: poll}},
	"progress": {{does: progress}},
	"end":      {{does: ends}},
	"watch":    {{does: sees}, {does: event, cancel: true}},
	"outlook":  {{does: sees}, {does: poll}},
	"signal":   {{does: signal}},
	"close":    {{does: shut}},
	"panic":    {{does: panics}},
	"exit":     {{does: exits}},
	"keep":     {{does: keep}},
	"twice":    {{does: await}, {does: await}},
}

type combination struct {
	roles  string
	events uint8
}

// combinations are what is explored, with the most of foreign events that come.
var combinations = []combination{
	// Ownership, and tasks that are delegated to the owner.
	{"thrice submit ask", 0},
	{"both both ask", 0},
	{"ask ask ask", 0},
	{"thrice thrice", 0},
	{"submit panic exit", 0},
	{"both exit ask", 0},

	// Waiting calls, and the one that leads.
	{"await await", 0},
	{"then submit", 0},
	{"then close", 0},
	{"run cancel", 0},
	{"run close", 0},
	{"run panic", 0},
	{"await ask submit", 0},
	{"await submit submit", 0},
	{"await await panic", 0},
	{"cancel submit progress", 0},
	{"run submit ask", 0},

	// Calls that wait for any event.
	{"event progress", 2},
	{"event signal progress", 1},
	{"event event signal", 0},
	{"event submit submit", 0},
	{"event submit progress", 1},
	{"event submit panic", 0},
	{"event submit exit", 0},
	{"event run signal", 0},
	{"event await signal", 0},

	// Calls that check once more before they sleep.
	{"watch end", 0},
	{"watch end progress", 0},
	{"watch end submit", 0},
	{"outlook end progress", 0},
	{"outlook end submit", 0},
	{"outlook run end", 0},

	// Sleeping outside of the engine.
	{"poll progress", 2},
	{"poll progress signal", 1},
	{"poll submit progress", 1},
	{"poll submit submit", 0},
	{"poll ask close", 0},
	{"poll submit exit", 0},
	{"poll run signal", 0},
	{"poll run progress", 1},
	{"poll await progress", 0},
	{"poll await signal", 0},
	{"poll event signal", 0},
	{"poll event submit", 0},
	{"poll panic submit", 0},

	// The background goroutine, which leads while no call waits.
	{"keep", 2},
	{"keep await", 1},
	{"keep cancel", 2},
	{"keep twice", 0},
	{"keep close", 1},
	{"keep submit ask", 0},
	{"keep submit panic", 0},
	{"keep submit exit", 0},
	{"keep signal progress", 1},
	{"keep poll", 2},
	{"keep poll submit", 0},
	{"keep event", 2},
	{"keep watch end", 0},
}

// larger ones have more states than is fun with the race detector.
var larger = []combination{
	{"again cancel", 0},
	{"watch run end", 0},
	{"await await submit", 0},
	{"await await progress", 0},
	{"await await close", 0},
	{"run await exit", 0},
	{"event await progress", 0},
	{"event event close", 0},
	{"event event progress", 0},
	{"again close submit", 0},
	{"cancel ask exit", 0},
	{"cancel submit close", 0},
	{"cancel cancel", 0},
	{"keep cancel submit", 0},
	{"keep run submit", 1},
	{"keep await progress", 0},
	{"keep await run", 0},
	{"keep await submit", 0},
	{"keep await await", 0},
	{"keep await exit", 0},
	{"keep run exit", 0},
	{"keep run close", 0},
	{"keep event submit", 1},
	{"keep await panic", 0},
}

// largest ones take as long as all others.
var largest = []combination{
	{"watch cancel end", 0},
	{"await await await", 0},
	{"cancel await close", 0},
	{"await cancel submit", 0},
	{"event run progress", 1},
	{"run await close", 0},
	{"event await submit", 0},
	{"poll await submit", 0},
	{"run await submit", 0},
	{"keep again close", 0},
	{"keep cancel cancel", 0},
	{"keep event await", 1},
	{"keep poll await", 0},
}

func scriptsOf(names string) (s [actors]script) {
	for a, name := range strings.Fields(names) {
		s[a] = roles[name]
	}
	return s
}

func eventsOf(names string) uint8 {
	for _, c := range slices.Concat(combinations, larger, largest) {
		if c.roles == names {
			return c.events
		}
	}
	return 0
}

func TestProtocol(t *testing.T) {
	needtest.Goroutines(t)
	explored := combinations
	if !testing.Short() {
		explored = slices.Concat(combinations, larger)
	}
	if needtest.Full {
		explored = slices.Concat(explored, largest)
	}
	total, took := 0, stepSet(0)
	for _, c := range explored {
		e, f := explore(scriptsOf(c.roles), c.events, faithful)
		if f != nil {
			t.Errorf("%s: %v", c.roles, f)
		}
		t.Logf("%8d states: %s", len(e.states), c.roles)
		total += len(e.states)
		took |= e.steps
	}
	t.Logf("%8d states of %d combinations", total, len(explored))
	if missing := (1<<steps - 1) &^ took; missing != 0 {
		t.Errorf("no combination takes the steps %v", missing)
	}
}
