//go:build linux

package interop

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// Blocking receives of the Go side with contexts that end soon. A later receive gets the message,
// and no buffer is written after its call has returned.

// deadlines runs rounds of each kind of receive, with the other side as the sender.
func (p *pair) deadlines(t *testing.T, sizes []int, rounds int, dice *rand.Rand) {
	t.Helper()
	for _, kind := range []struct {
		name string
		run  func(m message, dice *rand.Rand) (givenUp, parts int, err error)
	}{
		{"tagged", p.tagBy},
		{"of a stream", p.streamBy},
		{"active", p.activeBy},
	} {
		givenUp, parts := 0, 0
		for k := range rounds {
			m := p.msgs.next(sizes[k%len(sizes)])
			start := time.Now()
			n, some, err := kind.run(m, dice)
			if err != nil {
				t.Fatalf("%s, round %d, %d bytes, %d times given up, after %v: %v", kind.name, k, m.size, n, time.Since(start), err)
			}
			givenUp, parts = givenUp+n, parts+some
		}
		if err := p.ours.nothingWaits(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.ours.command("untouched"); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s sends %d messages, %s: %d receives were given up, %d with a part of the message", p.theirs.name, rounds, kind.name, givenUp, parts)
	}
}

// soon returns a deadline in microseconds, which may be too early for the message; that of the last
// try is the limit of any operation.
func soon(try int, dice *rand.Rand) int64 {
	if try > 200 {
		return operationLimit.Microseconds()
	}
	return int64(dice.IntN(1 << dice.IntN(6+min(try/4, 10))))
}

// by parses the result of a receive with a deadline.
func (p *peer) by(words ...any) (result, error) {
	values, err := p.command(words...)
	if err != nil {
		return result{}, err
	}
	return parseResult(values)
}

// tagBy receives a tagged message.
func (p *pair) tagBy(m message, dice *rand.Rand) (givenUp, parts int, err error) {
	mode := "async"
	if dice.IntN(4) == 0 {
		mode = "sync"
	}
	send := []any{"send", p.theirs.request(), ep, m.tag, m.size, m.seed, "contig", mode}
	if err := p.theirs.tell(send...); err != nil {
		return 0, 0, err
	}
	for try := 0; ; try++ {
		got, err := p.ours.by("recvby", m.tag, m.size, m.seed, soon(try, dice))
		switch {
		case err != nil:
			return givenUp, parts, err
		case got.status == ucs.ErrCanceled && try <= 200:
			givenUp++
			if got.verdict == "part" {
				parts++
			}
			continue
		case got != (result{status: ucs.OK, tag: m.tag, length: m.size, verdict: "same"}):
			return givenUp, parts, fmt.Errorf("%s: received %+v", p.ours.name, got)
		}
		if _, err := p.theirs.answer(send...); err != nil {
			return givenUp, parts, err
		}
		return givenUp, parts, p.theirs.finish(send[1].(int))
	}
}

// streamBy receives as many bytes of a stream as the message has, in pieces.
func (p *pair) streamBy(m message, dice *rand.Rand) (givenUp, parts int, err error) {
	m.size = max(m.size, 1) // C 1.13 accepts no less
	send := []any{"ssend", p.theirs.request(), ep, m.size, m.part(0), "contig"}
	if err := p.theirs.tell(send...); err != nil {
		return 0, 0, err
	}
	for offset, try := 0, 0; offset < m.size; try++ {
		want, how := min(m.size-offset, 1+dice.IntN(40_000)), "some"
		if dice.IntN(2) == 0 {
			how = "all"
		}
		got, err := p.ours.by("srecvby", ep, want, m.part(offset), how, soon(try, dice))
		switch {
		case err != nil:
			return givenUp, parts, err
		case got.status == ucs.ErrCanceled && try <= 200:
			givenUp++
			if got.length > 0 {
				parts++
			}
		case got.status != ucs.OK || got.length == 0:
			return givenUp, parts, fmt.Errorf("%s: received %+v at %d", p.ours.name, got, offset)
		}
		if got.length > want || got.length > 0 && got.verdict != "same" || got.length == 0 && got.verdict == "part" {
			return givenUp, parts, fmt.Errorf("%s: received %+v at %d, of %d", p.ours.name, got, offset, want)
		}
		if got.length > 0 {
			offset, try = offset+got.length, 0
		}
	}
	if _, err := p.theirs.answer(send...); err != nil {
		return givenUp, parts, err
	}
	return givenUp, parts, p.theirs.finish(send[1].(int))
}

// activeBy receives the data of an active message, which waits for the data even if the context
// ends.
func (p *pair) activeBy(m message, dice *rand.Rand) (givenUp, parts int, err error) {
	if err := p.ours.handler(amID, "keep"); err != nil {
		return 0, 0, err
	}
	flags := []string{"plain", "rndv", "eager,reply"}[dice.IntN(3)]
	s, err := p.theirs.activeSend(ep, amID, 8, m, "contig", flags)
	if err != nil {
		return 0, 0, err
	}
	offered, _, err := p.ours.activeNext(amID, 8, m)
	if err != nil {
		return 0, 0, err
	}
	if !offered {
		if err := p.ours.activeData(m); err != nil {
			return 0, 0, err
		}
		return 0, 0, p.theirs.finish(s)
	}
	got, err := p.ours.by("amrecvby", m.size, m.seed, soon(0, dice))
	if err != nil {
		return 0, 0, err
	}
	if got != (result{status: ucs.OK, length: m.size, verdict: "same"}) {
		return 0, 0, fmt.Errorf("%s: received %+v", p.ours.name, got)
	}
	return 0, 0, p.theirs.finish(s)
}
