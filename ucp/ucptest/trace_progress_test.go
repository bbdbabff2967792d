//go:build linux

package ucptest

import (
	"strings"
	"time"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// fault WHAT EFFECT [after=N] applies an effect to the next message of an id, or the next
// operation, named as in the trace with - for blanks: stall=ROUNDS, drop, fail, late=ROUNDS or
// cut=BYTES. With after, N of them come before it.
func (c *conversation) fault(a *arguments) {
	what := a.next()
	var e fault.Effect
	switch {
	case a.flag("drop"):
		e.Drop = ucs.ErrConnectionReset
	case a.flag("fail"):
		e.Fail = ucs.ErrIO
	default:
		e.Stall = a.number(a.setting("stall", "0"))
		e.Late = a.number(a.setting("late", "0"))
		e.Cut = a.number(a.setting("cut", "0"))
	}
	skip := a.number(a.setting("after", "0"))
	before := c.rig.sim.plan
	done := false
	c.faults = append(c.faults, func() bool { return done })
	c.rig.sim.plan = func(op fault.Op) (none fault.Effect) {
		name := strings.ReplaceAll(operations[op.Kind], " ", "-")
		if op.Kind <= fault.AMZcopy {
			name = proto.AMID(op.ID).String()
		}
		if done || name != what {
			if before != nil {
				return before(op)
			}
			return none
		}
		if skip > 0 {
			skip--
			return none
		}
		done = true
		return e
	}
}

// quiet is the number of rounds without events after which a run ends.
const quiet = 8

// run progresses all sides in turn until nothing happens any more.
func (c *conversation) run(*arguments) {
	for idle, rounds := 0, 0; idle < quiet || c.net.Pending() > 0; idle++ {
		if rounds++; rounds > 10000 {
			c.t.Fatal("the conversation does not end")
		}
		for _, s := range c.sides {
			if c.progress(s) > 0 {
				idle = 0
			}
		}
	}
}

// step SIDE [ROUNDS] progresses one side.
func (c *conversation) step(a *arguments) {
	s := c.speakerAt(a.next())
	rounds := 1
	if len(a.words) > 0 {
		rounds = a.number(a.next())
	}
	for range rounds {
		c.progress(s)
	}
}

func (c *conversation) progress(s *speaker) int {
	n := 0
	switch {
	case s.raw != nil:
		n = s.raw.progress()
	case !s.closed:
		n = s.Progress()
	}
	c.protocols()
	return n
}

// checks reports whether a message is a keepalive check. Workers send these by the clock, so a
// trace has only those that a command waits for.
func (c *conversation) checks(from string, e sim.Event) bool {
	if e.Flush || e.Op > fault.AMZcopy || proto.AMID(e.ID) != proto.IDWireup || c.speakerAt(from).raw != nil {
		return false
	}
	m, err := proto.ParseWireup(e.Data)
	return err == nil && m.Type == proto.WireupEpCheck
}

// keepalive SIDE progresses a side until it sends a keepalive check.
func (c *conversation) keepalive(a *arguments) {
	c.waiting = c.speakerAt(a.next())
	for start := time.Now(); c.waiting != nil; {
		if s := c.waiting; c.progress(s) == 0 {
			c.rig.sleep(1)
		}
		if time.Since(start) > time.Minute {
			c.t.Fatalf("%q: nothing is asked", a.line)
		}
	}
}

// awaits reports whether a command waits for a side's keepalive, and ends that wait.
func (c *conversation) awaits(name string) bool {
	if c.waiting == nil || c.waiting.name != name {
		return false
	}
	c.waiting = nil
	return true
}
