package uct

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
)

// waiter is a pending request that returns scripted results and logs its calls.
type waiter struct {
	Pending
	id     int
	script []error // results of the next calls; empty: nil
	log    *[]int
}

func (w *waiter) Dispatch(*Pending) error {
	*w.log = append(*w.log, w.id)
	return w.next()
}

func (w *waiter) next() error {
	if len(w.script) == 0 {
		return nil
	}
	r := w.script[0]
	w.script = w.script[1:]
	return r
}

// results are what Dispatch may return; the last two mean the same.
var results = []error{nil, ucs.InProgress, ucs.ErrNoResource, ucs.ErrBusy}

// dispatchModel is Dispatch on a plain list. It returns the remaining list, the calls, and the
// number of calls that made progress.
func dispatchModel(list []*waiter) (rest []*waiter, calls []int, progress int) {
	for len(list) > 0 {
		w := list[0]
		calls = append(calls, w.id)
		switch w.next() {
		case nil:
			list = list[1:]
			progress++
		case ucs.InProgress:
			progress++
		default:
			return list, calls, progress
		}
	}
	return list, calls, progress
}

func TestPendingQueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q PendingQueue
		var real, model []*waiter // same ids and scripts, separate state
		var log []int
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				script := rapid.SliceOfN(rapid.SampledFrom(results), 0, 4).Draw(t, "script")
				w := &waiter{id: next, script: slices.Clone(script), log: &log}
				w.Owner = w
				next++
				q.Add(&w.Pending)
				real = append(real, w)
				model = append(model, &waiter{id: w.id, script: script})
			},
			"dispatch": func(t *rapid.T) {
				log = nil
				n := q.Dispatch()
				rest, calls, progress := dispatchModel(model)
				if !slices.Equal(log, calls) || n != progress {
					t.Fatalf("dispatched %v with %d progress, want %v with %d", log, n, calls, progress)
				}
				for _, w := range real[:len(real)-len(rest)] {
					if w.Queued() {
						t.Fatalf("request %d says that it is queued", w.id)
					}
				}
				real, model = real[len(real)-len(rest):], rest
			},
			"purge": func(t *rapid.T) {
				var got []*Pending
				q.Purge(func(p *Pending) {
					if p.Queued() {
						t.Fatal("a purged request says that it is queued")
					}
					got = append(got, p)
				})
				if len(got) != len(real) {
					t.Fatalf("purged %d requests, want %d", len(got), len(real))
				}
				for i, w := range real {
					if got[i] != &w.Pending {
						t.Fatalf("purged another request in place %d", i)
					}
				}
				real, model = nil, nil
			},
			"": func(t *rapid.T) {
				if q.Empty() != (len(model) == 0) || q.Blocks() != !q.Empty() {
					t.Fatalf("empty %v, blocks %v, with %d waiting", q.Empty(), q.Blocks(), len(model))
				}
				for _, w := range real {
					if !w.Queued() {
						t.Fatalf("request %d does not say that it is queued", w.id)
					}
				}
			},
		})
	})
}

// dispatchFunc is a PendingOwner made of a function.
type dispatchFunc func(p *Pending) error

func (f dispatchFunc) Dispatch(p *Pending) error { return f(p) }

func TestPendingQueueInsideDispatch(t *testing.T) {
	t.Run("blocks nobody", func(t *testing.T) {
		var q PendingQueue
		p := &Pending{}
		p.Owner = dispatchFunc(func(*Pending) error {
			if q.Blocks() || q.Empty() {
				t.Error("the dispatch itself is blocked, or its request is gone already")
			}
			return nil
		})
		q.Add(p)
		if n := q.Dispatch(); n != 1 || !q.Empty() {
			t.Errorf("progress %d, empty %v", n, q.Empty())
		}
	})
	t.Run("is not entered again", func(t *testing.T) {
		var q PendingQueue
		calls := 0
		p := &Pending{}
		p.Owner = dispatchFunc(func(*Pending) error {
			calls++
			if n := q.Dispatch(); n != 0 {
				t.Errorf("nested dispatch made progress %d", n)
			}
			return nil
		})
		q.Add(p)
		q.Dispatch()
		if calls != 1 {
			t.Errorf("called %d times, want 1", calls)
		}
	})
	t.Run("add", func(t *testing.T) {
		var q PendingQueue
		var order []int
		second := &Pending{Owner: dispatchFunc(func(*Pending) error { order = append(order, 2); return nil })}
		first := &Pending{Owner: dispatchFunc(func(*Pending) error {
			order = append(order, 1)
			q.Add(second)
			return nil
		})}
		q.Add(first)
		if n := q.Dispatch(); n != 2 || !slices.Equal(order, []int{1, 2}) {
			t.Errorf("progress %d, order %v", n, order)
		}
	})
	t.Run("purge", func(t *testing.T) {
		var q PendingQueue
		purged, calls := 0, 0
		owner := dispatchFunc(func(*Pending) error {
			calls++
			q.Purge(func(*Pending) { purged++ })
			return nil
		})
		a, b := &Pending{Owner: owner}, &Pending{Owner: owner}
		q.Add(a)
		q.Add(b)
		if n := q.Dispatch(); n != 0 || calls != 1 || purged != 2 || !q.Empty() || a.Queued() || b.Queued() {
			t.Errorf("progress %d after %d calls, %d purged, empty %v", n, calls, purged, q.Empty())
		}
		q.Add(a) // usable again
		if !q.Blocks() {
			t.Error("the queue still believes that it is dispatching")
		}
	})
}

func TestPendingQueueAddTwicePanics(t *testing.T) {
	var q PendingQueue
	p := &Pending{Owner: dispatchFunc(func(*Pending) error { return nil })}
	q.Add(p)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	q.Add(p)
}

func TestPendingQueueDoesNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	var q PendingQueue
	p := &Pending{Owner: dispatchFunc(func(*Pending) error { return nil })}
	if n := testing.AllocsPerRun(100, func() { q.Add(p); q.Dispatch() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
