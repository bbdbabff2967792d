//go:build linux

package ucptest

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// A network without a kernel that loses messages, delivers them twice or late.

// lossy is a transport over that, whose peers are not taken for lost, and which sends again
// what is lost before long.
func (tr transport) lossy() transport {
	tr.few = true
	return tr.with(setting{"UD_TIMEOUT", "30s"}, setting{"UD_TIMER_TICK", "1ms"}, setting{"KEEPALIVE_INTERVAL", "1s"})
}

// hooked has a hook decide what becomes of messages until the test ends.
func hooked(t *testing.T, hook verbstest.Hook) {
	t.Helper()
	fake.Fabric().SetHook(hook)
	t.Cleanup(func() { fake.Fabric().SetHook(nil) })
}

// TestEachLost: whichever of the datagrams is lost, late or doubled by which endpoints come
// together, they do: those of two workers, and two of one.
func TestEachLost(t *testing.T) {
	const datagrams = 14
	step := 1
	if race.Enabled { // all is done by one goroutine
		step = 5
	}
	fates := []struct {
		name string
		fate verbstest.Fate
	}{{"lost", verbstest.Fate{Drop: true}}, {"late", verbstest.Fate{Hold: 6}}, {"twice", verbstest.Fate{Copies: 1, Hold: 3}}}
	for _, tr := range []transport{rc, ud} {
		for _, f := range fates {
			t.Run(tr.name+"/"+f.name, func(t *testing.T) {
				for n := 0; n < datagrams; n += step {
					t.Run(fmt.Sprint(n+1), func(t *testing.T) {
						hooked(t, verbstest.Nth(n+1, verbstest.Datagrams, f.fate))
						t.Run("both ask", func(t *testing.T) { testSimultaneous(t, tr.lossy()) })
						hooked(t, verbstest.Nth(n+1, verbstest.Datagrams, f.fate))
						t.Run("of one worker", func(t *testing.T) { testNoLoopback(t, tr.lossy()) })
					})
				}
			})
		}
	}
}
