//go:build linux

package verbstest

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Programs of other processes look for completions whenever they like, ring doorbells in
// memory, and take the time that timers say to be that of a clock.

// Serve has the devices do their work for such programs, until stop is called. A call that
// rings a doorbell does what it asks for. Doorbells in memory are looked at by a goroutine,
// all the time while there is something to do, and less and less often when there is not,
// down to once in 2 ms. What waits for a receive or a peer is tried again when the timers of
// its queue pair say, and each try counts.
func (n *Fabric) Serve() (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.sched.work
	wake, end, over := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	wake <- struct{}{}
	n.sched.wake = wake
	n.setWork(serving)
	go func() {
		defer close(over)
		n.attend(wake, end)
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-over
		n.SetWork(was)
	})
}

// attend is the goroutine.
func (n *Fabric) attend(wake, end <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	busy := time.Now() // there was something to do
	for {
		select {
		case <-end:
			return
		default:
		}
		done, next, polls := n.attendOnce()
		switch idle := time.Since(busy); {
		case done:
			busy = time.Now()
		case !polls:
			sleep(wake, end, next)
			busy = time.Now()
		case idle < keen:
			runtime.Gosched()
		default:
			d := unix.NsecToTimespec(int64(min(max(idle/8, shortest), longest)))
			unix.Nanosleep(&d, nil) // package time rounds up to 1 ms where all is quiet
		}
	}
}

const (
	keen     = 30 * time.Microsecond // how long doorbells are looked at without a pause
	shortest = 10 * time.Microsecond // pause between two looks
	longest  = 2 * time.Millisecond
	stretch  = 64 // work requests done at a time, before others get the lock
)

// sleep returns when the goroutine is woken, or at a time; the zero one is never.
func sleep(wake, end <-chan struct{}, until time.Time) {
	var tick <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		tick = t.C
	}
	select {
	case <-wake:
	case <-end:
	case <-tick:
	}
}

// attendOnce does what there is to do. It reports whether there was anything, when
// something that waits is to be tried again, and whether there may be doorbells to look
// at.
func (n *Fabric) attendOnce() (done bool, next time.Time, polls bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.kernels {
		polls = polls || k.of.polls() && len(k.files) > 0
	}
	done = n.look()
	if n.sched.aside.first != nil {
		now := time.Now()
		n.resume(func(q *qp) bool { return !q.later.After(now) })
	}
	tried, _ := n.loop(stretch, nil)
	if tried == 0 && (n.sched.aside.first != nil || len(n.faults.packets) > 0) {
		n.faults.passed++ // the time that messages are held by
		tried, _ = n.loop(stretch, nil)
	}
	for q := n.sched.aside.first; q != nil; q = q.next {
		if next.IsZero() || q.later.Before(next) {
			next = q.later
		}
	}
	if len(n.faults.packets) > 0 {
		next = time.Now().Add(longest)
	}
	return done || tried > 0, next, polls
}
