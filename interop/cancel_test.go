//go:build linux

package interop

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
)

// cancelSettings are the defaults, and eager messages of any length, mostly in fragments.
var cancelSettings = []setting{
	{name: "defaults"},
	{name: "eager", both: []string{"UCX_RNDV_THRESH=inf"}},
}

// otherThresholds are the sizes at which C UCX changes to another protocol, as ucx_info -u t -e
// prints them for the routes of these tests: for 1.13 (72 and 215159 over rc, 81 and 114818 over
// ud) and for 1.22.
var otherThresholds = []int{
	72, 81, 93, 627, 1863, 5029, 6031, 8185, 8249, 8256, 16484, 20553, 114_818, 215_159, 238_622, 256 << 10, 273_827,
}

// aroundThresholds returns sizes around the protocol thresholds of Go and of C, and some between
// them, in a random order that depends on the number.
func aroundThresholds(of *peer, number uint64) ([]int, error) {
	words, err := of.command("thresholds", ep)
	if err != nil {
		return nil, err
	}
	list := slices.Clone(otherThresholds)
	for _, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	sizes := []int{0, 8, 2000, 30_000, 70_000, 300_000, 1 << 20}
	for _, n := range list {
		for _, size := range []int{n - 1, n, n + 1} {
			if 0 <= size && size < 2<<20 {
				sizes = append(sizes, size)
			}
		}
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	dice := rand.New(rand.NewPCG(7, number))
	dice.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
	return sizes, nil
}

// TestCancelArrival: a receive is canceled, or its context ends, while its message arrives. Either
// it has the message, or the next receive of the same tag gets it, and no message comes twice. It
// runs in both directions, as Go must behave as C does.
func TestCancelArrival(t *testing.T) {
	c := buildC(t)
	ours := buildGo(t)
	where := newPlace()
	defer where.close()
	if where.apart(t) {
		t.Parallel() // the peers mostly sleep
	}
	rounds := 24
	if needtest.Full {
		rounds = 1000
	}
	for i, theirs := range append([]program{ours}, c...) {
		for j, s := range cancelSettings {
			for k, over := range []route{lo, posix, sysv, posixCMA} {
				t.Run(theirs.name+"/"+s.name+"/"+over.name, func(t *testing.T) {
					givenUp(t, where, ours, theirs, s, over, rounds, uint64(i*100+j*10+k))
				})
			}
		}
	}
}

// givenUp cancels receives of both sides while their messages arrive, and ends the contexts of
// receives on the Go side.
func givenUp(t *testing.T, where *place, ours, theirs program, s setting, over route, rounds int, number uint64) {
	t.Helper()
	p, err := newPair(where, ours, theirs, s, over)
	if err != nil {
		t.Fatal(err)
	}
	defer p.report(t)
	p.meet(t)
	sizes := []int{8, 8000, 30_000, 300_000}
	if ours.ours {
		if sizes, err = aroundThresholds(p.ours, number); err != nil {
			t.Fatal(err)
		}
	}
	dice := rand.New(rand.NewPCG(1, number))
	for _, back := range []bool{false, true} {
		from, to := p.theirs, p.ours
		if back {
			from, to = to, from
		}
		canceled, err := cancelRounds(from, to, &p.msgs, sizes, rounds, dice)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s sends: %d receives of %d were canceled", from.name, canceled, rounds)
	}
	if ours.ours {
		p.deadlines(t, sizes, max(rounds/5, 12), dice) // each has many receives
	}
	if err := p.close(s.errorMode()); err != nil {
		t.Error(err)
	}
}

// cancelRounds cancels receives at random moments after the send was requested, and returns how
// many were canceled.
func cancelRounds(from, to *peer, msgs *messages, sizes []int, rounds int, dice *rand.Rand) (canceled int, err error) {
	for k := range rounds {
		m := msgs.next(sizes[k%len(sizes)])
		was, err := cancelRound(from, to, m, dice)
		if err != nil {
			return canceled, fmt.Errorf("round %d, %d bytes: %w", k, m.size, err)
		}
		if was {
			canceled++
		}
	}
	return canceled, to.nothingWaits()
}

// nothingWaits checks that no message is left.
func (p *peer) nothingWaits() error {
	switch seen, err := p.command("probe", 0, 0, "keep", 1); {
	case err == nil:
		return fmt.Errorf("%s: a message that nobody has sent: %v", p.name, seen)
	case !errors.Is(err, errTimeout):
		return err
	}
	return nil
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
	// Both commands are sent at about the same time, in either order.
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

// spin waits for a short moment.
func spin(n int) {
	for range n {
		runtime.Gosched()
	}
}
