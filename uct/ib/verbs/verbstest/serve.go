//go:build linux

package verbstest

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Service of programs in other processes. They poll for completions at any time, ring doorbells in
// memory, and expect timers to run in real time.

// Serve makes the devices work for programs in other processes, until stop is called. A call that
// rings a doorbell executes the work. A goroutine polls the doorbells in memory: continuously while
// there is work, and less and less often when there is none, down to once in 2 ms. Work that waits
// for a receive or a peer is retried by the timers of its queue pair, and each try counts. Serve
// panics while Run or Serve is in force.
func (n *Fabric) Serve() (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wantCalls("Serve")
	was := n.sched.work
	wake, end, over := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	wake <- struct{}{}
	n.sched.wake = wake
	n.setWork(serving)
	go func() {
		defer close(over)
		n.serveLoop(wake, end)
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-over
		n.mu.Lock()
		defer n.mu.Unlock()
		n.setWork(was)
	})
}

// serveLoop is the goroutine of Serve.
func (n *Fabric) serveLoop(wake, end <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	busy := time.Now() // when there was work last
	for {
		select {
		case <-end:
			return
		default:
		}
		done, next, polls := n.serveOnce()
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
			unix.Nanosleep(&d, nil) // a timer of package time rounds up to 1 ms in an idle process
		}
	}
}

const (
	keen     = 30 * time.Microsecond // time without work during which doorbells are polled without a pause
	shortest = 10 * time.Microsecond // shortest pause between two polls
	longest  = 2 * time.Millisecond
	stretch  = 64 // work requests executed before the lock is released
)

// sleep returns when the goroutine is woken, when it must end, or at the time until. A zero time
// means no time limit.
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

// serveOnce executes the work that is ready. It reports whether there was any (done), when to
// retry waiting work (next), and whether there may be doorbells to poll (polls).
func (n *Fabric) serveOnce() (done bool, next time.Time, polls bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.kernels {
		polls = polls || k.kind.polls() && len(k.files) > 0
	}
	done = n.look()
	if n.sched.waiting.first != nil {
		now := time.Now()
		n.resume(func(q *qp) bool { return !q.later.After(now) })
	}
	tried, _ := n.loop(stretch, nil)
	if tried == 0 && (n.sched.waiting.first != nil || len(n.faults.packets) > 0) {
		n.faults.clock++ // the clock of held messages
		tried, _ = n.loop(stretch, nil)
	}
	for q := n.sched.waiting.first; q != nil; q = q.next {
		if next.IsZero() || q.later.Before(next) {
			next = q.later
		}
	}
	if len(n.faults.packets) > 0 {
		next = time.Now().Add(longest)
	}
	return done || tried > 0, next, polls
}
