//go:build linux

package main

import (
	"context"
	"runtime"
	"sync"

	"github.com/ucx-go/ucx/ucs"
)

// team is the threads of one side of a test: goroutines here, OpenMP threads in C's tool. To the
// other side they are one: only the first thread exchanges barriers and statuses, while the others
// wait.
type team struct {
	group
	size   int
	ctx    context.Context // canceled when a thread fails
	cancel context.CancelFunc

	mu             sync.Mutex
	arrivedThreads int        // threads that have arrived at the barrier of this side; guarded by mu
	met            uint       // number of completed barriers of this side; guarded by mu
	err            error      // the error of the first thread that failed, kept for good; guarded by mu
	status         ucs.Status // result of the last exchange; the first thread writes it between barriers
}

func newTeam(g group, size int) *team {
	t := &team{group: g, size: size, ctx: context.Background(), cancel: func() {}}
	if size > 1 { // waiting on a context has a cost, and a single thread has no other that could fail
		t.ctx, t.cancel = context.WithCancel(t.ctx)
	}
	return t
}

// run runs f on all threads. The caller is the first thread. It returns the error of the thread
// that failed first, which makes the other threads fail too.
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

// fail records an error, unless it is nil, and ends all waits of threads.
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

// meet is a barrier of this side's threads. Each thread calls progress while it waits, because
// threads of the other side may need that progress before this side's threads arrive.
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

// arrive enters the barrier of this side's threads. The result over reports whether this was the
// last thread, which completes the barrier; before is the number of barriers completed before.
func (t *team) arrive() (before uint, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before = t.met
	if t.arrivedThreads++; t.arrivedThreads == t.size {
		t.arrivedThreads = 0
		t.met++
		over = true
	}
	return before, over
}

// isOver reports whether the barrier that arrive has entered is complete or, after a failure, never
// will be. The parameter before is the result of arrive.
func (t *team) isOver(before uint) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.met != before || t.err != nil
}

// alive implements group. It also fails if a thread of this side has failed.
func (t *team) alive() error {
	if err := t.failure(); err != nil {
		return err
	}
	return t.group.alive()
}

// member is the team as one of its threads uses it. The barriers and statuses of a member, unlike
// those of the team, are collective: each thread must take part.
type member struct {
	*team
	id int
}

func (t *team) member(id int) member { return member{t, id} }

// first makes the first thread call the function do, while the other threads wait for it.
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

// exchangeStatus implements group. The first thread's status is sent.
func (m member) exchangeStatus(s ucs.Status) (ucs.Status, error) {
	err := m.first(nothing, func() (err error) {
		m.status, err = m.group.exchangeStatus(s)
		return err
	})
	return m.status, err
}

// nothing is the progress function of threads that wait only for the other threads.
func nothing() int { return 0 }
