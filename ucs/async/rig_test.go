package async

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs/event"
)

// inModes runs a test with a context of each mode, and sees that nothing is left of it.
func inModes(t *testing.T, test func(t *testing.T, c *Context)) {
	for _, mode := range []Mode{ModeThreadSpinlock, ModeThreadMutex, ModePoll} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Cleanup(noneServes) // behind that of open
			test(t, open(t, mode))
		})
	}
}

func open(t *testing.T, mode Mode) *Context {
	t.Helper()
	c, err := New(mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for c.Blocked() {
			check(t, c.Unblock())
		}
		check(t, c.Close())
	})
	return c
}

// serving is the number of goroutines that serve contexts.
func serving() int {
	b := make([]byte, 1<<20)
	return strings.Count(string(b[:runtime.Stack(b, true)]), "(*Context).serve(")
}

// noneServes waits until none is left: they end when they hear of it.
func noneServes() {
	for serving() > 0 {
		runtime.Gosched()
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until polls a context of ModePoll, and lets others run, until something is so.
func until(c *Context, so func() bool) {
	for !so() {
		if c.Mode() == ModePoll {
			c.Poll()
		}
		runtime.Gosched()
	}
}

// calls is what a function was called for.
type calls struct {
	mu   sync.Mutex
	ids  []int          // guarded by mu
	evs  []event.Events // guarded by mu
	then func()
}

func (l *calls) note(id int, ev event.Events) {
	l.mu.Lock()
	l.ids, l.evs = append(l.ids, id), append(l.evs, ev)
	l.mu.Unlock()
	if l.then != nil {
		l.then()
	}
}

func (l *calls) number() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ids)
}

func (l *calls) atLeast(n int) func() bool { return func() bool { return l.number() >= n } }

// timer adds a timer that notes its calls.
func timer(t *testing.T, c *Context, l *calls) int {
	t.Helper()
	id, err := c.AddTimer(time.Millisecond, l.note)
	check(t, err)
	return id
}

// settled waits for a timer that is added now to expire twice: whatever was due before
// has been called for then, if it is called for at all.
func settled(t *testing.T, c *Context) {
	t.Helper()
	l := new(calls)
	id := timer(t, c, l)
	until(c, l.atLeast(2))
	check(t, c.RemoveHandler(id, true))
}
