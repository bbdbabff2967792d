package event

import (
	"container/heap"
	"fmt"
	"math"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// Timers runs functions at given times, inside Set.Poll. It uses one descriptor of the set, which
// becomes readable when the earliest timer is due: a poll before that reads no clock, and a wait on
// the set's descriptor ends at that time. Only the goroutine that uses the Set may use it.
type Timers struct {
	set    *Set
	alarm  alarm
	open   bool // the alarm is open, which the first timer causes
	closed bool
	heap   timerHeap
	rings  time.Duration // time for which the alarm is set, the constant never if it is not set
}

// Timer is a scheduled function.
type Timer struct {
	owner *Timers
	at    time.Duration // time on the monotonic clock at which the timer is due
	index int           // index in the heap, -1 if the timer is not scheduled
	fn    func()
}

const never time.Duration = math.MaxInt64

// NewTimers makes an empty group of timers on set.
func NewTimers(set *Set) *Timers { return &Timers{set: set, rings: never} }

// After schedules fn to run once, in the first Poll after the time d from now. fn may do everything
// that a Handler may, and change the timers.
func (t *Timers) After(d time.Duration, fn func()) (*Timer, error) {
	if !t.open && !t.closed {
		if err := t.alarm.open(t.set, t); err != nil {
			return nil, err
		}
		t.open = true
	}
	tm := &Timer{owner: t, fn: fn, index: -1}
	if err := tm.Reset(d); err != nil {
		return nil, err
	}
	return tm, nil
}

// Reset schedules the timer again, d from now, whether or not it was scheduled. Postponing a timer
// takes no system call.
func (tm *Timer) Reset(d time.Duration) error {
	t := tm.owner
	if t.closed {
		return fmt.Errorf("event: the timers are closed: %w", ucs.ErrInvalidParam)
	}
	// The time is never in the past, so that a function that resets its timer does not run twice in
	// one Poll.
	now := monotonic()
	tm.at = now + min(max(d, 1), never-now)
	if tm.index >= 0 {
		heap.Fix(&t.heap, tm.index)
	} else {
		heap.Push(&t.heap, tm)
	}
	return t.program()
}

// Stop cancels the timer; its function will not run until Reset. It reports
// whether the timer was scheduled.
func (tm *Timer) Stop() bool {
	if tm.index < 0 {
		return false
	}
	// The alarm may go off once without a due timer, which is cheaper than setting it again.
	heap.Remove(&tm.owner.heap, tm.index)
	return true
}

// HandleEvent implements Handler for the alarm: it runs the due timers.
func (t *Timers) HandleEvent(Events) {
	t.alarm.clear()
	t.rings = 0 // the functions that run may schedule timers, but only program below sets the alarm
	now := monotonic()
	for len(t.heap) > 0 && t.heap[0].at <= now {
		tm := heap.Pop(&t.heap).(*Timer)
		tm.fn()
	}
	t.rings = never
	// Setting an open timer cannot fail, because the arguments are in range.
	_ = t.program()
}

// Close stops all timers for good. It is idempotent.
func (t *Timers) Close() error {
	t.closed = true
	for _, tm := range t.heap {
		tm.index = -1
	}
	t.heap = nil
	if !t.open {
		return nil
	}
	t.open = false
	return t.alarm.close(t.set)
}

// program sets the alarm to the time of the earliest timer, unless it is already set to that time
// or an earlier one.
func (t *Timers) program() error {
	if !t.open || len(t.heap) == 0 || t.heap[0].at >= t.rings {
		return nil
	}
	at := t.heap[0].at
	if err := t.alarm.set(max(at-monotonic(), 1)); err != nil {
		return err
	}
	t.rings = at
	return nil
}

// timerHeap orders timers by time.
type timerHeap []*Timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	tm := x.(*Timer)
	tm.index = len(*h)
	*h = append(*h, tm)
}
func (h *timerHeap) Pop() any {
	old := *h
	tm := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	tm.index = -1
	return tm
}
