package queue

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

type item struct {
	producer, number int
	link             Node[item]
}

// TestModel compares a queue with a slice.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q MPSC[item]
		var model []*item
		number := 0
		var spare *item // popped objects are pushed again
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				it := spare
				if spare = nil; it == nil {
					it = new(item)
				}
				it.number = number
				number++
				fresh := len(model) == 0
				if first := q.Push(&it.link, it); fresh && !first {
					t.Fatal("the first object is not said to be")
				}
				model = append(model, it)
				if !it.link.Queued() || !q.Pending() {
					t.Fatal("a pushed object is not queued or not pending")
				}
			},
			"pop": func(t *rapid.T) {
				got := q.Pop()
				if len(model) == 0 {
					if got != nil {
						t.Fatalf("popped %d from an empty queue", got.number)
					}
					return
				}
				if got != model[0] {
					t.Fatalf("popped %v, want %d", got, model[0].number)
				}
				if got.link.Queued() {
					t.Fatal("a popped object is still queued")
				}
				model, spare = model[1:], got
			},
			"": func(t *rapid.T) {
				if q.Empty() != (len(model) == 0) {
					t.Fatalf("Empty is %v with %d objects", q.Empty(), len(model))
				}
				if q.Pending() && len(model) == 0 {
					t.Fatal("an empty queue has something pending")
				}
			},
		})
	})
}

func TestPushTwice(t *testing.T) {
	var q MPSC[item]
	it := new(item)
	q.Push(&it.link, it)
	defer func() {
		if recover() == nil {
			t.Error("pushed twice")
		}
	}()
	q.Push(&it.link, it)
}

// TestProducers lets several goroutines push while one pops: nothing is lost,
// nothing comes twice, and each producer's objects come in order.
func TestProducers(t *testing.T) {
	const producers, each = 4, 5000
	var q MPSC[item]
	var wg sync.WaitGroup
	for p := range producers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range each {
				it := &item{producer: p, number: n}
				q.Push(&it.link, it)
			}
		}()
	}
	var next [producers]int
	for popped := 0; popped < producers*each; {
		it := q.Pop()
		if it == nil {
			runtime.Gosched()
			continue
		}
		if it.number != next[it.producer] {
			t.Fatalf("producer %d: got number %d, want %d", it.producer, it.number, next[it.producer])
		}
		next[it.producer]++
		popped++
	}
	wg.Wait()
	if !q.Empty() || q.Pending() || q.Pop() != nil {
		t.Error("something is left")
	}
}

// TestHandOver passes the consumer's role between goroutines the way a worker
// does: whoever gets the flag drains the queue, lets go, and looks again.
// Nothing may be left when all are done.
func TestHandOver(t *testing.T) {
	const goroutines, each = 4, 3000
	var (
		q     MPSC[item]
		owned atomic.Bool
		done  int // guarded by owned
		wg    sync.WaitGroup
	)
	drain := func() {
		for q.Pending() && owned.CompareAndSwap(false, true) {
			for q.Pop() != nil {
				done++
			}
			owned.Store(false)
		}
	}
	for range goroutines {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range each {
				it := new(item)
				q.Push(&it.link, it)
				drain()
			}
		}()
	}
	wg.Wait()
	if done != goroutines*each || !q.Empty() {
		t.Errorf("%d of %d objects were consumed", done, goroutines*each)
	}
}

func TestNoAllocations(t *testing.T) {
	var q MPSC[item]
	its := make([]item, 8)
	n := testing.AllocsPerRun(100, func() {
		for i := range its {
			q.Push(&its[i].link, &its[i])
		}
		for range its {
			if q.Pop() == nil {
				t.Fatal("an object is missing")
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per round, want 0", n)
	}
}

func BenchmarkPushPop(b *testing.B) {
	var q MPSC[item]
	it := new(item)
	b.ReportAllocs()
	for b.Loop() {
		q.Push(&it.link, it)
		q.Pop()
	}
}
