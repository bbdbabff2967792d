//go:build linux

package interop

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
)

// cancelSizes are around the thresholds of the protocols of either side: short, copied,
// without copies, in fragments, rendezvous.
var cancelSizes = []int{0, 8, 100, 2000, 8000, 9000, 20_000, 30_000, 70_000, 300_000, 1 << 20}

// cancelSettings are the defaults, and messages that go at once whatever their length, most
// in fragments.
var cancelSettings = []setting{
	{name: "defaults"},
	{name: "eager", both: []string{"UCX_RNDV_THRESH=inf"}},
}

// TestCancelArrival: a receive that is canceled while its message arrives either has the
// message, or the next receive of the same tag gets it, and nothing comes twice. In both
// directions, as what we do must not differ from what C does.
func TestCancelArrival(t *testing.T) {
	c := buildC(t)
	ours := buildGo(t)
	where := newPlace()
	defer where.close()
	if where.apart(t) {
		t.Parallel() // the peers sleep much
	}
	rounds := 2 * len(cancelSizes)
	if needtest.Full {
		rounds = 1000
	}
	for _, theirs := range append([]program{ours}, c...) {
		for _, s := range cancelSettings {
			for _, over := range []route{lo, posix, sysv, posixCMA} {
				t.Run(theirs.name+"/"+s.name+"/"+over.name, func(t *testing.T) {
					p, err := newPair(where, ours, theirs, s, over)
					if err != nil {
						t.Fatal(err)
					}
					defer p.report(t)
					p.meet(t)
					for _, back := range []bool{false, true} {
						from, to := p.theirs, p.ours
						if back {
							from, to = to, from
						}
						canceled, err := cancelRounds(from, to, &p.msgs, rounds)
						if err != nil {
							t.Fatal(err)
						}
						t.Logf("%s sends: %d receives of %d were canceled", from.name, canceled, rounds)
					}
					if err := p.close(s.errorMode()); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// cancelRounds cancels receives at some moment after the send was asked for, and returns how
// many were canceled.
func cancelRounds(from, to *peer, msgs *messages, rounds int) (canceled int, err error) {
	dice := rand.New(rand.NewPCG(1, 2))
	for k := range rounds {
		m := msgs.next(cancelSizes[k%len(cancelSizes)])
		was, err := cancelRound(from, to, m, dice)
		if err != nil {
			return canceled, fmt.Errorf("round %d, %d bytes: %w", k, m.size, err)
		}
		if was {
			canceled++
		}
	}
	switch seen, err := to.command("probe", 0, 0, "keep", 1); {
	case err == nil:
		return canceled, fmt.Errorf("%s: a message that nobody has sent: %v", to.name, seen)
	case !errors.Is(err, errTimeout):
		return canceled, err
	}
	return canceled, nil
}

func cancelRound(from, to *peer, m message, dice *rand.Rand) (canceled bool, err error) {
	r, err := to.recv(m.tag, fullMask, m.size, "contig")
	if err != nil {
		return false, err
	}
	s := from.request()
	send := []any{"send", s, ep, m.tag, m.size, m.seed, "contig", "async"}
	if dice.IntN(4) == 0 {
		send[len(send)-1] = "sync"
	}
	// Both are told at about the same time, in either order.
	first, second := func() error { return from.tell(send...) }, func() error { return to.tell("cancel", r) }
	if dice.IntN(8) == 0 {
		first, second = second, first
	}
	if err := first(); err != nil {
		return false, err
	}
	spin(dice.IntN(1 << dice.IntN(18)))
	if err := second(); err != nil {
		return false, err
	}
	if _, err := from.answer(send...); err != nil {
		return false, err
	}
	if _, err := to.answer("cancel", r); err != nil {
		return false, err
	}
	got, err := to.wait(r, m.seed)
	if err != nil {
		return false, err
	}
	switch {
	case got.status == ucs.ErrCanceled:
		if r, err = to.recv(m.tag, fullMask, m.size, "contig"); err == nil {
			err = to.received(r, m)
		}
		canceled = true
	case got != (result{status: ucs.OK, tag: m.tag, length: m.size, verdict: "same"}):
		err = fmt.Errorf("%s: received %+v", to.name, got)
	}
	if err != nil {
		return canceled, err
	}
	return canceled, from.finish(s)
}

// spin lets a moment pass.
func spin(n int) {
	for range n {
		runtime.Gosched()
	}
}
