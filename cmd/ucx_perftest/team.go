//go:build linux

package main

import (
	"context"
	"runtime"
	"sync"

	"github.com/ucx-go/ucx/ucs"
)

// team is the threads of one side of a test: goroutines here, of OpenMP in C's
// tool. To the other side they are one: barriers and statuses cross the
// connection once, in the hands of the first thread while the others wait.
type team struct {
	group
	size   int
	ctx    context.Context // ends when a thread has failed
	cancel context.CancelFunc

	mu     sync.Mutex
	here   int        // threads at the meeting; guarded by mu
	met    uint       // meetings until now; guarded by mu
	err    error      // of the first thread that failed, for good; guarded by mu
	status ucs.Status // that the last exchange came to; the first thread's between meetings
}

func newTeam(g group, size int) *team {
	t := &team{group: g, size: size, ctx: context.Background(), cancel: func() {}}
	if size > 1 { // it costs who waits something, and one alone has none that could fail
		t.ctx, t.cancel = context.WithCancel(t.ctx)
	}
	return t
}

// run runs f on all threads, the first of which is the caller's. The error is
// that of the thread that failed first, which lets the others fail.
func (t *team) run(f func(id int) error) error {
	defer narrow(t.size)()
	var others sync.WaitGroup
	for id := 1; id < t.size; id++ {
		others.Add(1)
		go func() {
			defer others.Done()
			t.fail(f(id))
		}()
	}
	t.fail(f(0))
	others.Wait()
	return t.failure()
}

// fail lets no thread wait any longer, unless err is nil.
func (t *team) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil && err != nil {
		t.err = err
		t.cancel()
	}
}

func (t *team) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// meet waits for the other threads. Each calls its progress meanwhile: the other
// side's threads may wait for it, and this side's for those.
func (t *team) meet(progress func() int) error {
	before, over := t.arrive()
	for !over {
		if progress() == 0 {
			runtime.Gosched()
		}
		over = t.isOver(before)
	}
	return t.failure()
}

// arrive comes to a meeting, which is over if this is the last thread.
func (t *team) arrive() (before uint, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before = t.met
	if t.here++; t.here == t.size {
		t.here = 0
		t.met++
		over = true
	}
	return before, over
}

// isOver reports whether a meeting has come to an end, or never will.
func (t *team) isOver(before uint) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.met != before || t.err != nil
}

// alive implements group: a side is not worth waiting for when a thread of one's
// own has given up.
func (t *team) alive() error {
	if err := t.failure(); err != nil {
		return err
	}
	return t.group.alive()
}

// member is a team as one of its threads sees it. Unlike the team's, its barriers
// and statuses are those of all threads, each of which has to take part.
type member struct {
	*team
	id int
}

func (t *team) member(id int) member { return member{t, id} }

// first has the first thread do something while the others wait for it.
func (m member) first(progress func() int, do func() error) error {
	if err := m.meet(progress); err != nil {
		return err
	}
	if m.id == 0 {
		m.fail(do())
	}
	return m.meet(progress)
}

// barrier implements group. Each thread calls its own progress.
func (m member) barrier(progress func() int) error {
	return m.first(progress, func() error { return m.group.barrier(progress) })
}

// exchangeStatus implements group. It is the first thread's status that counts.
func (m member) exchangeStatus(s ucs.Status) (ucs.Status, error) {
	err := m.first(nothing, func() (err error) {
		m.status, err = m.group.exchangeStatus(s)
		return err
	})
	return m.status, err
}

// nothing is the progress of who has nothing to wait for but the other threads.
func nothing() int { return 0 }
