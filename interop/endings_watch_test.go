//go:build linux

package interop

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// How the outcomes of a script are observed.

// A watch follows one field of an outcome.
type watch struct {
	field    int
	side     *peer
	poll     func() (string, bool, error)
	recorded []string // recorded values
	must     bool     // the recorded values all say that it ends
	value    string
	ended    bool
	outcome  *endingOutcome
}

// How long to wait for outcomes that are unknown, or do not end.
const (
	endingQuiet    = 120 * time.Millisecond // with -update: time without an event
	endingPatience = time.Second            // with -ending-waits
	endingMaybe    = 50 * time.Millisecond  // may end or not
	endingStill    = 5 * time.Millisecond   // does not end
)

// watch observes the outcomes.
func (x *act) watch(expected []outcomeSet, seen []endingOutcome) error {
	var list []*watch
	for i, s := range x.scenes {
		for field := range outcomeFields {
			seen[i][field] = absent
		}
		add := func(field int, side *peer, poll func() (string, bool, error)) {
			list = append(list, &watch{field: field, side: side, poll: poll, recorded: expected[i][field], outcome: &seen[i]})
		}
		if x.alive(x.a) && x.phase != "done" {
			add(0, x.a, func() (string, bool, error) {
				return x.a.look(s.request, s.m.seed, s.isReceive)
			})
		}
		switch {
		case s.closes:
			add(1, x.closer, func() (string, bool, error) { return x.closer.look(s.closing, 0, false) })
		case x.how == "worker" || x.how == "shutdown":
			add(1, nil, x.lookAtAnswer)
		}
		if x.alive(x.b) && (s.posted || s.cell.op.receive == nil) && x.phase != "done" {
			add(2, x.b, func() (string, bool, error) { return s.cell.op.seen(s) })
		}
		for k, p := range []*peer{x.a, x.b} {
			if x.alive(p) {
				add(3+k, p, func() (string, bool, error) { return p.heard(s.ep) })
			}
		}
	}
	if err := x.settle(list, false); err != nil {
		return err
	}
	for _, w := range list {
		w.outcome[w.field] = w.value
	}
	// Then the other side closes, too.
	var pending []*watch
	for _, w := range list {
		if !w.ended && w.field < 3 {
			pending = append(pending, w)
		}
	}
	if x.untold && x.closer == x.other {
		return nil
	}
	for i, s := range x.scenes {
		n := x.other.request()
		if err := x.other.do("close", n, s.ep, "flush"); err != nil {
			return err
		}
		pending = append(pending, &watch{field: 5, side: x.other, recorded: expected[i][5], outcome: &seen[i],
			poll: func() (string, bool, error) { return x.other.look(n, 0, false) }})
	}
	if err := x.settle(pending, true); err != nil {
		return err
	}
	for _, w := range pending {
		switch before := w.outcome[w.field]; {
		case w.field == 5:
			w.outcome[w.field] = w.value
		case w.value != before:
			w.outcome[w.field] = before + ">" + w.value
		}
	}
	return nil
}

func (x *act) alive(p *peer) bool { return x.how != "killed" || p != x.closer }

// lookAtAnswer checks whether the closer has answered.
func (x *act) lookAtAnswer() (string, bool, error) {
	if x.untold {
		if len(x.closer.replies) == 0 && !x.processEnded(x.closer) {
			return waits, false, nil
		}
		if err := x.answered(); err != nil {
			if failed := commandError(""); errors.As(err, &failed) {
				return "failed", true, nil
			}
			return "", false, err
		}
	}
	return statusNames[0], true, nil
}

// The error that the handler of an endpoint got, absent if it was not called.
func (p *peer) heard(ep int) (string, bool, error) {
	values, err := p.command("failure", ep)
	if err != nil {
		return "", false, err
	}
	r, err := parseResult(values)
	if err != nil || r.status == 0 {
		return absent, false, err
	}
	return statusName(r.status), true, nil
}

// settle polls until everything that should end has ended, and nothing more happens.
func (x *act) settle(list []*watch, behind bool) error {
	quiet := endingStill
	for _, w := range list {
		may := false
		w.must, may = ends(w.recorded, behind)
		switch {
		case len(w.recorded) == 0:
			quiet = max(quiet, endingQuiet)
			if *endingWaits {
				quiet = endingPatience
			}
		case may && !w.must:
			quiet = max(quiet, endingMaybe)
		}
	}
	limit := time.Now().Add(endingLimit)
	switch {
	case *updateEndings:
		limit = time.Now().Add(5 * max(quiet, endingQuiet))
	case x.pairing.name == "CC":
		limit = time.Now().Add(endingLimit / 10)
	}
	for last := time.Now(); ; {
		open, must := false, false
		for _, w := range list {
			if w.ended {
				continue
			}
			if x.untold && w.side == x.closer {
				open = true
				must = must || w.must
				continue
			}
			value, ended, err := w.poll()
			if err != nil {
				return fmt.Errorf("%s: %w", outcomeFields[w.field], err)
			}
			if ended || value != w.value {
				last = time.Now()
			}
			w.value, w.ended = value, ended
			open, must = open || !ended, must || !ended && w.must
		}
		switch now := time.Now(); {
		case !open, !must && now.Sub(last) > quiet, now.After(limit):
			for _, w := range list {
				switch {
				case w.value != "":
				case w.field == 3 || w.field == 4:
					w.value = absent
				default:
					w.value = waits
				}
			}
			return nil
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// ends reports whether the recorded values say that something must end, and whether it may end,
// before the other side's close or after it.
func ends(recorded []string, behind bool) (must, may bool) {
	must = len(recorded) > 0
	for _, v := range recorded {
		before, after, both := strings.Cut(v, ">")
		if behind && both {
			before = after
		}
		if before == waits || before == nothing || before == absent {
			must = false
		} else {
			may = true
		}
	}
	return must, may
}

// endingLimit limits the wait for a recorded end. It is shorter for C with C, which often differs.
const endingLimit = 30 * time.Second
