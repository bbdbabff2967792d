package event

import (
	"container/heap"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Timers runs functions at given times, inside Set.Poll. It stands on one
// timerfd, so nothing reads a clock while no timer is due and a wait on the
// Set's descriptor ends when one is. It belongs to the goroutine of its Set.
type Timers struct {
	set  *Set
	fd   int // -1 until the first timer
	heap timerHeap
}

// Timer is a scheduled function.
type Timer struct {
	owner *Timers
	at    int64 // CLOCK_MONOTONIC, ns
	index int   // in the heap, -1 when not scheduled
	fn    func()
}

// NewTimers makes an empty group of timers on set.
func NewTimers(set *Set) *Timers { return &Timers{set: set, fd: -1} }

// After schedules fn to run once, d from now or at the next Poll after that.
func (t *Timers) After(d time.Duration, fn func()) (*Timer, error) {
	if t.fd < 0 {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		if err != nil {
			return nil, fmt.Errorf("event: timerfd_create: %w", err)
		}
		if err := t.set.Add(fd, Read, t); err != nil {
			unix.Close(fd)
			return nil, err
		}
		t.fd = fd
	}
	tm := &Timer{owner: t, fn: fn, index: -1}
	return tm, tm.Reset(d)
}

// Reset schedules the timer anew, d from now.
func (tm *Timer) Reset(d time.Duration) error {
	tm.at = monotonic() + int64(max(d, 0))
	if tm.index >= 0 {
		heap.Fix(&tm.owner.heap, tm.index)
	} else {
		heap.Push(&tm.owner.heap, tm)
	}
	return tm.owner.program()
}

// Stop cancels the timer; its function will not run. It reports whether the
// timer was scheduled.
func (tm *Timer) Stop() bool {
	if tm.index < 0 {
		return false
	}
	heap.Remove(&tm.owner.heap, tm.index)
	// The descriptor may fire once for nothing: cheaper than programming it.
	return true
}

// Active reports whether the timer is scheduled.
func (tm *Timer) Active() bool { return tm.index >= 0 }

// HandleEvent runs what is due.
func (t *Timers) HandleEvent(Events) {
	var buf [8]byte
	unix.Read(t.fd, buf[:]) // clears readiness; EAGAIN only if reprogrammed meanwhile
	now := monotonic()
	for len(t.heap) > 0 && t.heap[0].at <= now {
		tm := heap.Pop(&t.heap).(*Timer)
		tm.fn()
	}
	t.program()
}

// Close stops all timers.
func (t *Timers) Close() error {
	if t.fd < 0 {
		return nil
	}
	for _, tm := range t.heap {
		tm.index = -1
	}
	t.heap = nil
	err := t.set.Remove(t.fd)
	unix.Close(t.fd)
	t.fd = -1
	return err
}

// program sets the descriptor to the earliest timer. Absolute time makes a
// timer that is already due fire at once.
func (t *Timers) program() error {
	if t.fd < 0 || len(t.heap) == 0 {
		return nil
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(t.heap[0].at, 1))}
	if err := unix.TimerfdSettime(t.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		return fmt.Errorf("event: timerfd_settime: %w", err)
	}
	return nil
}

// monotonic is the clock timerfd runs on.
func monotonic() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
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
