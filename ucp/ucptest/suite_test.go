//go:build linux

package ucptest

import (
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
)

// The suite checks what must be true over every transport. Each test states its rule; if it is a
// rule of the C library, with the C name.

// need is what a test requires of a transport.
type need uint16

const (
	anywhere need = 0

	// twoSides: the sides are different workers.
	twoSides need = 1 << iota

	// oneSide: both sides are the same worker.
	oneSide

	// prompt: operations that can complete in their call do so.
	prompt

	// onDemand: the test can inject faults.
	onDemand

	// lonely: workers belong to one goroutine at a time.
	lonely

	// watchful: the keepalive checks peers all the time. Over shared memory nothing else detects
	// peers that have ended.
	watchful

	// everySwitch: the test is repeated under every switch, or under those that
	// change most.
	everySwitch
	fewSwitches
)

// missing returns what a transport lacks, "" for nothing.
func (n need) missing(tr transport) string {
	switch {
	case n&twoSides != 0 && tr.loopback:
		return "both sides would be the same worker"
	case n&oneSide != 0 && !tr.loopback:
		return "the sides are different workers"
	case n&prompt != 0 && tr.busy:
		return "nothing can be expected to finish in its call"
	case n&onDemand != 0 && tr.sim == nil:
		return "nothing goes wrong on demand"
	case n&lonely != 0 && tr.mode == ucs.ThreadModeMulti:
		return "any goroutine may call the workers"
	}
	return ""
}

type testCase struct {
	name string
	need need
	run  func(t *testing.T, tr transport)
}

// switches are the settings that change the protocols of messages. Without rendezvous everything is
// sent eagerly, with and without copies.
var switches = []struct {
	name     string
	few      bool // also one of the few
	settings []setting
}{
	{"defaults", true, nil},
	{"rndv always", false, []setting{{"RNDV_THRESH", "0"}}},
	{"rndv in messages", true, []setting{{"RNDV_THRESH", "0"}, {"RNDV_SCHEME", "am"}}},
	{"eager, zcopy always", true, []setting{{"RNDV_THRESH", "inf"}, {"ZCOPY_THRESH", "0"}}},
	{"eager, zcopy never", false, []setting{{"RNDV_THRESH", "inf"}, {"ZCOPY_THRESH", "inf"}}},
}

// suite has the tests of messages, endpoints and workers.
var suite = []caseGroup{
	{"transfer", transferCases},
	{"matching", matchCases},
	{"cancellation", cancelCases},
	{"streams", streamCases},
	{"completion", completeCases},
	{"forced completion", forceCases},
	{"lengths", lengthCases},
	{"datatypes", genericCases},
	{"requests", requestCases},
	{"waiting", waitCases},
	{"order", orderCases},
	{"wireup", wireupCases},
	{"addresses", readdressCases},
	{"flush", flushCases},
	{"close", closeCases},
	{"worker close", workerCloseCases},
	{"failure", failureCases},
	{"faults", faultCases},
	{"wakeup", wakeupCases},
	{"signals", signalCases},
	{"waiting for memory", waitMemCases},
	{"panics", panicCases},
	{"active messages", amCases},
}

// long returns the number of repetitions with needtest.Full, or without.
func long(withFull, without int) int {
	if needtest.Full {
		return withFull
	}
	return without
}

func TestSuite(t *testing.T) { runGroups(t, transports, suite) }

// TestShows checks that the groups that transports name exist.
func TestShows(t *testing.T) {
	for _, tr := range transports {
		for _, name := range tr.shows {
			if !slices.ContainsFunc(slices.Concat(suite, oneSidedSuite), func(g caseGroup) bool { return g.name == name }) {
				t.Errorf("%s is to run the group %q, which is not there", tr.name, name)
			}
		}
	}
}

// caseGroup is a group of tests of one subject.
type caseGroup struct {
	name  string
	cases []testCase
}

// runGroups runs groups of tests over transports.
func runGroups(t *testing.T, on []transport, groups []caseGroup) {
	for _, tr := range on {
		t.Run(tr.name, func(t *testing.T) {
			if !tr.raced() {
				needtest.Goroutines(t)
			}
			for _, g := range groups {
				if !needtest.Full && tr.shows != nil && !slices.Contains(tr.shows, g.name) {
					continue
				}
				t.Run(g.name, func(t *testing.T) {
					for i, c := range g.cases {
						runCase(t, c, i, tr)
					}
				})
			}
		})
	}
}

// raced reports whether the tests over a transport run under the race detector: if other threads or
// goroutines than the caller's are involved.
func (tr transport) raced() bool {
	if tr.sim != nil || tr.loopback {
		return false // TestMulti uses these with many goroutines
	}
	return tr.mode == ucs.ThreadModeMulti || slices.Contains([]string{"tcp", rc.name, ud.name}, tr.name)
}

// runCase runs a test, number i of its group, over a transport: under every switch if the test asks
// for that, or under the switch whose turn it is.
func runCase(t *testing.T, c testCase, i int, tr transport) {
	if why := c.need.missing(tr); why != "" {
		t.Run(c.name, func(t *testing.T) { t.Skip(why) })
		return
	}
	if c.need&watchful != 0 {
		tr = tr.with(setting{"KEEPALIVE_INTERVAL", "1ms"}, setting{"UD_TIMEOUT", "200ms"}, setting{"TCP_MAX_CONN_RETRIES", "5"})
	}
	t.Run(c.name, func(t *testing.T) {
		if c.need&(everySwitch|fewSwitches) == 0 {
			c.run(t, tr)
			return
		}
		for _, s := range switches {
			if (tr.few || c.need&fewSwitches != 0) && !s.few {
				continue
			}
			if i++; !race.Enabled && !tr.takes(i) {
				continue
			}
			t.Run(s.name, func(t *testing.T) { c.run(t, tr.with(s.settings...)) })
			if race.Enabled {
				break // the race detector needs no other switches
			}
		}
	})
}
