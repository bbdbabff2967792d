//go:build linux

package ucptest

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// A simulated network that loses messages, duplicates them or delivers them late.

// lossy returns a transport with timeouts for such a network: long for the loss of peers, short for
// retransmissions.
func (tr transport) lossy() transport {
	tr.few = true
	return tr.with(setting{"UD_TIMEOUT", "30s"}, setting{"UD_TIMER_TICK", "1ms"}, setting{"KEEPALIVE_INTERVAL", "1s"})
}

// hooked has a hook decide the fate of messages until the test ends.
func hooked(t *testing.T, hook verbstest.Hook) {
	t.Helper()
	fake.Fabric().SetHook(hook)
	t.Cleanup(func() { fake.Fabric().SetHook(nil) })
}

// TestEachLost checks that endpoints get connected, of two workers or of one, whichever single
// datagram of the connection setup is lost, late or duplicated.
func TestEachLost(t *testing.T) {
	needtest.Goroutines(t)
	const datagrams = 14
	fates := []struct {
		name string
		fate verbstest.Fate
	}{{"lost", verbstest.Fate{Drop: true}}, {"late", verbstest.Fate{Hold: 6}}, {"twice", verbstest.Fate{Copies: 1, Hold: 3}}}
	for _, tr := range []transport{rc, ud} {
		for _, f := range fates {
			t.Run(tr.name+"/"+f.name, func(t *testing.T) {
				for n := range datagrams {
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

// TestLossy: of all messages 5% are lost, 5% duplicated and 5% delivered late, after others; some
// replies to connection requests are lost, and some receivers are not ready. Everything arrives
// once, whole and in order, whatever its protocol.
func TestLossy(t *testing.T) {
	needtest.Goroutines(t)
	chances := verbstest.Chances{Drop: 0.05, Copy: 0.05, Hold: 0.05, NoAnswer: 0.02, NotReady: 0.02}
	cases := []testCase{
		{"sending before the connection stands", anywhere, testSendAtOnce}, {"mixed sends match in order", anywhere, testMixedOrder},
		{"endpoints do not disturb each other", fewSwitches, testManyEndpoints},
		{"put", anywhere, testPut}, {"get", anywhere, testGet}, {"many accesses", anywhere, testManyAccesses},
		{"both ask", anywhere, testSimultaneous}, {"pairs of one worker", anywhere, testNoLoopback}, {"many to one", anywhere, testManyToOne},
	}
	for k, tr := range overRDMA {
		t.Run(tr.name, func(t *testing.T) {
			hooked(t, verbstest.Random(uint64(k), chances))
			for i, c := range cases {
				runCase(t, c, i, tr.lossy())
			}
		})
	}
}

// TestMultiLossy is TestMulti over such a network.
func TestMultiLossy(t *testing.T) {
	hooked(t, verbstest.Random(1, verbstest.Chances{Drop: 0.05, Copy: 0.05, Hold: 0.05}))
	c := newCrowd(t, onFabric("ib", "ib").pairwise().lossy())
	c.steps = 4
	c.run(drivePoll)
}
