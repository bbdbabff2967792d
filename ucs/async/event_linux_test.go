package async

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// pipe returns the ends of a pipe, closed when the test ends, but not before its contexts.
func pipe(t *testing.T) (r, w int) {
	t.Helper()
	var p [2]int
	check(t, unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

func put(t *testing.T, fd int) {
	t.Helper()
	_, err := unix.Write(fd, []byte{1})
	check(t, err)
}

// drain takes away readiness.
func drain(fd int) {
	var b [64]byte
	unix.Read(fd, b[:])
}

// drained notes a call when it has taken away what brought it.
func (l *calls) drained(fd int) Func {
	return func(id int, ev event.Events) {
		drain(fd)
		l.note(id, ev)
	}
}

// watched is a pipe whose reader has a handler that drains it.
func watched(t *testing.T, c *Context) (l *calls, r, w int) {
	t.Helper()
	r, w = pipe(t)
	l = new(calls)
	check(t, c.SetEventHandler(r, event.Read, l.drained(r)))
	t.Cleanup(func() { c.RemoveHandler(r, true) }) // before the pipe is closed
	return l, r, w
}

// TestEvent: a descriptor that becomes ready is told, each time.
func TestEvent(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		l, r, w := watched(t, c)
		if n := c.Poll(); n != 0 {
			t.Errorf("Poll = %d before anything happened", n)
		}
		for n := 1; n <= 10; n++ {
			put(t, w)
			until(c, l.atLeast(n))
		}
		settled(t, c)
		check(t, c.RemoveHandler(r, true))
		if n := l.number(); n != 10 {
			t.Errorf("%d calls for 10 events", n)
		}
		for i := range l.ids {
			if l.ids[i] != r || l.evs[i] != event.Read {
				t.Errorf("told %v %v", l.ids, l.evs)
			}
		}
	})
}

// TestReadinessLasts: what a function does not take away is told again, but for edges.
func TestReadinessLasts(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		r, w := pipe(t)
		l := new(calls)
		check(t, c.SetEventHandler(r, event.Read, l.note))
		put(t, w)
		until(c, l.atLeast(3))
		check(t, c.RemoveHandler(r, true))
		l = new(calls)
		check(t, c.SetEventHandler(r, event.Read|event.Edge, l.note))
		until(c, l.atLeast(1))
		settled(t, c)
		if n := l.number(); n != 1 {
			t.Errorf("%d calls for an edge", n)
		}
		check(t, c.RemoveHandler(r, true))
	})
}

// TestBlockedEvent: what is ready while the context is blocked is called for at the end of
// that, once for all; and what comes in the next block, in the next.
func TestBlockedEvent(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		l, _, w := watched(t, c)
		for round := 1; round <= 3; round++ {
			c.Block()
			for range 2 {
				put(t, w)
				until(c, func() bool { return c.Missed() == 1 })
			}
			if n := l.number(); n != round-1 {
				t.Errorf("round %d: %d calls of a blocked context", round, n)
			}
			check(t, c.Unblock())
			if n := l.number(); n != round || c.Missed() != 0 {
				t.Errorf("round %d: %d calls, %d missed", round, n, c.Missed())
			}
		}
		settled(t, c)
		if n := l.number(); n != 3 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestBlockedEdge: an edge that is missed is not lost.
func TestBlockedEdge(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		r, w := pipe(t)
		l := new(calls)
		check(t, c.SetEventHandler(r, event.Read|event.Edge, l.note))
		c.Block()
		put(t, w)
		until(c, func() bool { return c.Missed() == 1 })
		check(t, c.Unblock())
		if l.number() != 1 {
			t.Errorf("%d calls", l.number())
		}
		check(t, c.RemoveHandler(r, true))
	})
}

// TestModify: no events, no calls; others, others.
func TestModify(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		l, r, w := watched(t, c)
		put(t, w)
		until(c, l.atLeast(1))
		for n := 1; n < 4; n++ {
			check(t, c.ModifyHandler(r, 0))
			check(t, c.ModifyHandler(r, 0))
			put(t, w)
			settled(t, c)
			if l.number() != n {
				t.Errorf("%d calls, %d before it was muted", l.number(), n)
			}
			check(t, c.ModifyHandler(r, event.Read))
			until(c, l.atLeast(n+1))
		}
	})
}

// TestMuted: a handler that begins without events has none, not even of a hang-up.
func TestMuted(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		check(t, err)
		defer unix.Close(fds[0])
		l := new(calls)
		check(t, c.SetEventHandler(fds[0], 0, l.note))
		unix.Close(fds[1])
		settled(t, c)
		if l.number() != 0 {
			t.Errorf("told %v", l.evs)
		}
		check(t, c.ModifyHandler(fds[0], event.Write))
		until(c, l.atLeast(1))
		check(t, c.RemoveHandler(fds[0], true))
		if ev := l.evs[0]; ev&event.Hup == 0 || ev&event.Read != 0 {
			t.Errorf("told %#x of a hang-up", ev)
		}
	})
}

// TestModifyMissed: what was missed and is not asked for any more is not told.
func TestModifyMissed(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		check(t, err)
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		l := new(calls)
		c.Block()
		check(t, c.SetEventHandler(fds[0], event.Read|event.Write, l.note))
		until(c, func() bool { return c.Missed() == 1 }) // it can be written to
		check(t, c.ModifyHandler(fds[0], event.Read))
		check(t, c.Unblock())
		settled(t, c)
		if l.number() != 0 {
			t.Errorf("told %v", l.evs)
		}
		put(t, fds[1])
		until(c, l.atLeast(1))
		check(t, c.RemoveHandler(fds[0], true))
		if l.evs[0] != event.Read {
			t.Errorf("told %#x", l.evs[0])
		}
	})
}

// TestRemoveEvent: a handler that is removed is not called for what it missed, nor for
// what comes.
func TestRemoveEvent(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		for _, sync := range []bool{false, true} {
			l, r, w := watched(t, c)
			c.Block()
			put(t, w)
			until(c, func() bool { return c.Missed() == 1 })
			check(t, c.RemoveHandler(r, sync))
			if c.Missed() != 0 {
				t.Errorf("%d are missed", c.Missed())
			}
			check(t, c.Unblock())
			settled(t, c)
			if l.number() != 0 {
				t.Errorf("%d calls", l.number())
			}
		}
	})
}

// TestRemoveEventFromFunction: a function removes its own handler, and its descriptor can
// have another one at once.
func TestRemoveEventFromFunction(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		for _, sync := range []bool{false, true} {
			r, w := pipe(t)
			first, second := new(calls), new(calls)
			var errs [2]error
			first.then = func() { // what is there stays: for the other one
				errs[0] = c.RemoveHandler(r, sync)
				errs[1] = c.SetEventHandler(r, event.Read, second.drained(r))
			}
			check(t, c.SetEventHandler(r, event.Read, first.note))
			put(t, w)
			until(c, second.atLeast(1))
			put(t, w)
			until(c, second.atLeast(2))
			check(t, c.RemoveHandler(r, true))
			if errs != [2]error{} || first.number() != 1 {
				t.Errorf("%v, %d calls of the first", errs, first.number())
			}
		}
	})
}

// TestAddFromFunction: a function adds a handler, while another goroutine removes its own.
func TestAddFromFunction(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		for range 20 {
			r, w := pipe(t)
			other, _ := pipe(t)
			added := false
			check(t, c.SetEventHandler(r, event.Read, func(int, event.Events) {
				if !added {
					added = c.SetEventHandler(other, event.Read, nothing) == nil
				}
			}))
			put(t, w)
			c.Poll()
			check(t, c.RemoveHandler(r, true))
			if err := c.RemoveHandler(other, true); (err == nil) != added {
				t.Errorf("added: %v, then %v", added, err)
			}
		}
	})
}

// TestBadEvents: what is no descriptor, no event, nobody's or somebody's else is refused,
// and leaves nothing behind.
func TestBadEvents(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		r, w := pipe(t)
		file, err := os.Create(t.TempDir() + "/file")
		check(t, err)
		defer file.Close()
		var gone [2]int
		check(t, unix.Pipe2(gone[:], unix.O_CLOEXEC))
		unix.Close(gone[0])
		unix.Close(gone[1])
		for what, tc := range map[string]struct {
			fd   int
			ev   event.Events
			fn   Func
			want error
		}{
			"negative":         {-1, event.Read, nothing, ucs.ErrInvalidParam},
			"the id of timers": {minTimerID, event.Read, nothing, ucs.ErrExceedsLimit},
			"closed":           {gone[0], event.Read, nothing, unix.EBADF},
			"closed and muted": {gone[0], 0, nothing, unix.EBADF},
			"a plain file":     {int(file.Fd()), event.Read, nothing, unix.EPERM},
			"no function":      {r, event.Read, nil, ucs.ErrInvalidParam},
			"unknown events":   {r, 1 << 20, nothing, ucs.ErrInvalidParam},
		} {
			if err := c.SetEventHandler(tc.fd, tc.ev, tc.fn); !errors.Is(err, tc.want) {
				t.Errorf("%s: %v, want %v", what, err, tc.want)
			}
		}
		if len(c.handlers) != 0 || serving() != 0 {
			t.Errorf("%d handlers, %d goroutines for what was refused", len(c.handlers), serving())
		}
		check(t, c.SetEventHandler(r, event.Read, nothing))
		if err := c.SetEventHandler(r, event.Read, nothing); !errors.Is(err, ucs.ErrAlreadyExists) {
			t.Errorf("a second handler: %v", err)
		}
		for _, fd := range []int{-1, w} {
			if err := c.ModifyHandler(fd, event.Read); !errors.Is(err, ucs.ErrNoElem) {
				t.Errorf("modifying %d: %v", fd, err)
			}
			if err := c.RemoveHandler(fd, true); !errors.Is(err, ucs.ErrNoElem) {
				t.Errorf("removing %d: %v", fd, err)
			}
		}
		if err := c.ModifyHandler(r, 1<<20); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("unknown events: %v", err)
		}
		check(t, c.RemoveHandler(r, true))
	})
}

// TestClosedDescriptor: one that its owner has closed already can be removed, which says
// so.
func TestClosedDescriptor(t *testing.T) {
	c := open(t, ModePoll)
	var p [2]int
	check(t, unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	defer unix.Close(p[1])
	check(t, c.SetEventHandler(p[0], event.Read, nothing))
	unix.Close(p[0])
	if err := c.RemoveHandler(p[0], true); !errors.Is(err, unix.EBADF) {
		t.Errorf("RemoveHandler = %v", err)
	}
	if len(c.handlers) != 0 {
		t.Error("it is there still")
	}
}

// TestDescriptorsGivenBack: a context, its timers and its goroutine leave none open.
func TestDescriptorsGivenBack(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		check(t, err)
		return len(list)
	}
	r, w := pipe(t)
	before := 0
	for round := range 4 {
		if round == 1 {
			before = count() // Go's poller has its own by now
		}
		c, err := New(ModeThread)
		check(t, err)
		l := new(calls)
		check(t, c.SetEventHandler(r, event.Read, l.drained(r)))
		timer(t, c, l)
		put(t, w)
		until(c, l.atLeast(3))
		check(t, c.Close())
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// TestManyGoroutines: they add, modify and remove handlers, block, poll and make
// descriptors ready, all of one context. No function runs while it is blocked, or beside
// another, or behind a synchronous removal.
func TestManyGoroutines(t *testing.T) {
	inModes(t, func(t *testing.T, c *Context) {
		const rounds = 100
		inside := 0 // without a lock: functions run one at a time
		var all sync.WaitGroup
		for range 4 {
			r, w := pipe(t)
			all.Add(1)
			go func() {
				defer all.Done()
				for round := range rounds {
					removed, called := false, 0
					err := c.SetEventHandler(r, event.Read, func(int, event.Events) {
						inside++
						drain(r)
						if called++; removed {
							t.Error("called behind its removal")
						}
						inside--
					})
					if err != nil {
						t.Error(err)
						return
					}
					unix.Write(w, []byte{1})
					if round%2 == 0 {
						c.Poll()
					}
					c.ModifyHandler(r, event.Read|event.Edge)
					if err := c.RemoveHandler(r, round%3 != 0); err != nil {
						t.Error(err)
					}
					if round%3 != 0 {
						removed = true
					}
				}
			}()
			all.Add(1)
			go func() {
				defer all.Done()
				for range rounds {
					id, err := c.AddTimer(time.Microsecond, func(int, event.Events) {
						if inside++; inside != 1 {
							t.Error("two functions at a time")
						}
						inside--
					})
					if err != nil {
						t.Error(err)
						return
					}
					c.Block()
					if inside != 0 {
						t.Error("a function runs in a blocked context")
					}
					c.Poll()
					if err := c.Unblock(); err != nil {
						t.Error(err)
					}
					if err := c.RemoveHandler(id, true); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		all.Wait()
		if len(c.handlers) != 0 {
			t.Errorf("%d handlers are left", len(c.handlers))
		}
	})
}
