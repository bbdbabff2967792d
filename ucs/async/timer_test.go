package async

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

func nothing(int, event.Events) {}

func TestModes(t *testing.T) {
	for mode, want := range map[Mode]string{0: "signal", 1: "thread_spinlock", 2: "thread_mutex", 3: "poll", 4: "async mode 4"} {
		if mode.String() != want {
			t.Errorf("%d is %v, want %s", uint8(mode), mode, want)
		}
	}
	if _, err := New(ModeSignal); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("signal mode: %v", err)
	}
	if _, err := New(4); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("no mode: %v", err)
	}
}

// TestTimer: it expires again and again, with its id and no events.
func TestTimer(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		l := new(calls)
		id := timer(t, c, l)
		until(c, l.atLeast(4))
		check(t, c.RemoveHandler(id, true))
		for i := range l.ids {
			if l.ids[i] != id || l.evs[i] != 0 {
				t.Errorf("called with %d, %#x; the timer is %d", l.ids[i], l.evs[i], id)
			}
		}
	})
}

// TestTwoTimers: of one context, and of two.
func TestTwoTimers(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		other := open(t, c.Mode())
		var l [3]calls
		for i, c := range []*Context{c, c, other} {
			timer(t, c, &l[i])
		}
		for i, c := range []*Context{c, c, other} {
			until(c, l[i].atLeast(3))
		}
	})
}

// TestManyTimers: they come and go, and no two have one id.
func TestManyTimers(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		seen := make(map[int]bool)
		for range 20 {
			var ids []int
			for range 250 {
				id, err := c.AddTimer(time.Second, nothing)
				check(t, err)
				if seen[id] || id < minTimerID {
					t.Fatalf("id %d, again or too low", id)
				}
				seen[id] = true
				ids = append(ids, id)
			}
			for _, id := range ids {
				check(t, c.RemoveHandler(id, false))
			}
		}
		if len(c.handlers) != 0 || c.loop != nil {
			t.Errorf("%d handlers are left", len(c.handlers))
		}
	})
}

// TestIDsWrap: after the last id comes the first that is free.
func TestIDsWrap(t *testing.T) {
	c := open(t, ModePoll)
	first, err := c.AddTimer(time.Hour, nothing)
	check(t, err)
	c.lastID = minTimerID + maxTimers - 2
	for _, want := range []int{minTimerID + maxTimers - 1, minTimerID + 1} {
		if id, err := c.AddTimer(time.Hour, nothing); err != nil || id != want {
			t.Errorf("id %d, %v; want %d behind %d", id, err, want, first)
		}
	}
}

// TestBlockedTimer: a timer that expires while the context is blocked is missed once, and
// called for at the end of that.
func TestBlockedTimer(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		l := new(calls)
		c.Block()
		timer(t, c, l)
		until(c, func() bool { return c.Missed() > 0 })
		if n := c.Missed(); n != 1 || l.number() != 0 {
			t.Errorf("%d missed, %d calls", n, l.number())
		}
		check(t, c.Unblock())
		if l.number() == 0 {
			t.Error("the missed call was not made up for")
		}
		until(c, l.atLeast(3)) // it goes on
	})
}

// TestNestedBlocks: the last Unblock counts, and one too many is refused.
func TestNestedBlocks(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		for depth := range 3 {
			if c.Blocked() != (depth > 0) {
				t.Errorf("blocked %d times: %v", depth, c.Blocked())
			}
			c.Block()
		}
		l := new(calls)
		timer(t, c, l)
		until(c, func() bool { return c.Missed() > 0 })
		for range 2 {
			check(t, c.Unblock())
			if c.Poll(); !c.Blocked() || l.number() != 0 {
				t.Error("an inner Unblock counts")
			}
		}
		check(t, c.Unblock())
		if c.Blocked() || l.number() == 0 {
			t.Errorf("blocked: %v, %d calls", c.Blocked(), l.number())
		}
		if err := c.Unblock(); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("an Unblock too many: %v", err)
		}
	})
}

// TestWaitForFunction: Block, a synchronous removal and Close wait for the function that
// runs.
func TestWaitForFunction(t *testing.T) {
	for name, wait := range map[string]func(c *Context, id int) error{
		"block":  func(c *Context, _ int) error { c.Block(); return nil },
		"remove": func(c *Context, id int) error { return c.RemoveHandler(id, true) },
		"close":  func(c *Context, _ int) error { return c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, ModeThread)
			over, inside, leave := false, make(chan struct{}), make(chan struct{})
			first := true
			id, err := c.AddTimer(time.Millisecond, func(int, event.Events) {
				if first {
					first = false
					close(inside)
					<-leave
					over = true
				}
			})
			check(t, err)
			<-inside
			go close(leave)
			check(t, wait(c, id))
			if !over { // and the race detector sees that this is ordered
				t.Error("it did not wait")
			}
		})
	}
}

// TestNoWait: a removal that is not synchronous does not wait for the function.
func TestNoWait(t *testing.T) {
	c := open(t, ModeThread)
	inside, leave := make(chan struct{}), make(chan struct{})
	id, err := c.AddTimer(time.Millisecond, func(int, event.Events) {
		close(inside) // the second time would panic
		<-leave
	})
	check(t, err)
	<-inside
	check(t, c.RemoveHandler(id, false))
	if n := c.Poll(); n != 0 { // somebody else is at it
		t.Errorf("Poll = %d", n)
	}
	close(leave)
	settled(t, c)
}

// TestRemoveFromFunction: a function removes its own handler, in both ways, and is not
// called again.
func TestRemoveFromFunction(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		for _, sync := range []bool{false, true} {
			l := new(calls)
			var err error
			var id int
			c.Block() // until id is there
			l.then = func() { err = c.RemoveHandler(id, sync) }
			id = timer(t, c, l)
			check(t, c.Unblock())
			until(c, l.atLeast(1))
			settled(t, c)
			if n := l.number(); n != 1 || err != nil {
				t.Errorf("sync %v: %d calls, %v", sync, n, err)
			}
			if err := c.RemoveHandler(id, sync); !errors.Is(err, ucs.ErrNoElem) {
				t.Errorf("removing it again: %v", err)
			}
		}
	})
}

// TestRemoveDue: what one function removes is not called, although it was due.
func TestRemoveDue(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		var l [2]calls
		var ids [2]int
		c.Block()
		for i := range l {
			l[i].then = func() { c.RemoveHandler(ids[1-i], true) }
			ids[i] = timer(t, c, &l[i])
		}
		until(c, func() bool { return c.Missed() == 2 || c.Mode() != ModePoll && c.Missed() == 1 })
		check(t, c.Unblock())
		settled(t, c)
		if a, b := l[0].number(), l[1].number(); (a == 0) == (b == 0) {
			t.Errorf("called %d and %d times", a, b)
		}
	})
}

// TestFromFunction: a function blocks and unblocks, polls, and adds handlers.
func TestFromFunction(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		outer, inner := new(calls), new(calls)
		polled, blocked := 0, false
		outer.then = func() {
			if outer.number() > 1 {
				return
			}
			c.Block()
			c.Block()
			blocked = c.Blocked()
			polled = c.Poll()
			timer(t, c, inner)
			check(t, c.Unblock())
			check(t, c.Unblock())
		}
		id := timer(t, c, outer)
		until(c, inner.atLeast(2))
		check(t, c.RemoveHandler(id, true))
		if !blocked || polled != 0 {
			t.Errorf("blocked: %v, Poll = %d", blocked, polled)
		}
	})
}

// TestBlockFromFunction: what a function blocks stays so until somebody unblocks it.
func TestBlockFromFunction(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		l := new(calls)
		l.then = func() {
			if l.number() == 1 {
				c.Block()
			}
		}
		timer(t, c, l)
		until(c, func() bool { return c.Missed() == 1 })
		if l.number() != 1 {
			t.Errorf("%d calls of a blocked context", l.number())
		}
		check(t, c.Unblock())
		until(c, l.atLeast(3))
	})
}

// TestLostFunction: one that panics, or ends its goroutine, leaves the context in order.
func TestLostFunction(t *testing.T) {
	c := open(t, ModePoll)
	l := new(calls)
	l.then = func() {
		if l.number() == 1 {
			panic("mine")
		}
	}
	timer(t, c, l)
	func() {
		defer func() {
			if recover() != "mine" {
				t.Error("no panic")
			}
		}()
		until(c, l.atLeast(2))
	}()
	until(c, l.atLeast(3))

	c = open(t, ModeThread)
	l = new(calls)
	l.then = func() {
		if l.number() == 1 {
			runtime.Goexit()
		}
	}
	timer(t, c, l)
	until(c, l.atLeast(3))
}

// TestGoroutine: there is one from the first handler to the last, and none in poll mode.
func TestGoroutine(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		want := 1
		if c.Mode() == ModePoll {
			want = 0
		}
		for range 3 {
			var ids []int
			for range 3 {
				id, err := c.AddTimer(time.Hour, nothing)
				check(t, err)
				ids = append(ids, id)
			}
			until(c, func() bool { return serving() == want })
			for _, id := range ids {
				check(t, c.RemoveHandler(id, true))
			}
			noneServes()
		}
	})
}

// TestClose: it removes what there is; a closed context refuses all but a Close.
func TestClose(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		l := new(calls)
		id := timer(t, c, l)
		until(c, l.atLeast(1))
		c.Block()
		if err := c.Close(); !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("closing a blocked context: %v", err)
		}
		check(t, c.Unblock())
		check(t, c.Close())
		if c.loops != 0 {
			t.Errorf("%d goroutines behind Close", c.loops)
		}
		check(t, c.Close())
		n := l.number()
		if c.Poll() != 0 || c.Missed() != 0 || l.number() != n {
			t.Error("a closed context calls")
		}
		if err := c.RemoveHandler(id, true); !errors.Is(err, ucs.ErrNoElem) {
			t.Errorf("RemoveHandler = %v", err)
		}
		if _, err := c.AddTimer(1, nothing); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("AddTimer = %v", err)
		}
		if err := c.SetEventHandler(0, event.Read, nothing); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("SetEventHandler = %v", err)
		}
	})
}

// TestCloseFromFunction: a function closes its context.
func TestCloseFromFunction(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		l := new(calls)
		over := make(chan error, 1)
		l.then = func() { over <- c.Close() }
		timer(t, c, l)
		until(c, l.atLeast(1))
		check(t, <-over)
		noneServes()
		if n := l.number(); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestPollAll: all contexts are polled.
func TestPollAll(t *testing.T) {
	var l [3]calls
	for i := range l {
		timer(t, open(t, ModePoll), &l[i])
	}
	for slices.ContainsFunc([]int{0, 1, 2}, func(i int) bool { return l[i].number() == 0 }) {
		PollAll()
	}
}

func TestBadTimers(t *testing.T) {
	c := open(t, ModePoll)
	for _, d := range []time.Duration{0, -1, math.MinInt64} {
		if id, err := c.AddTimer(d, nothing); id != 0 || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("an interval of %v: %d, %v", d, id, err)
		}
	}
	if _, err := c.AddTimer(1, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("no function: %v", err)
	}
	id, err := c.AddTimer(math.MaxInt64, nothing)
	check(t, err)
	if err := c.ModifyHandler(id, event.Read); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("events of a timer: %v", err)
	}
	for _, id := range []int{-1, 0, minTimerID - 1, id + 1, math.MaxInt} {
		if err := c.RemoveHandler(id, true); !errors.Is(err, ucs.ErrNoElem) {
			t.Errorf("handler %d: %v", id, err)
		}
	}
	check(t, c.RemoveHandler(id, true))
}
