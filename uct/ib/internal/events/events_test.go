//go:build linux

package events

import (
	"slices"
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// reader is a box for the events of one port, with its worker.
type reader struct {
	Box
	w    *uct.Worker
	told []verbs.AsyncEvent
}

func open(t *testing.T, d *Dispatcher, w *uct.Worker, port int) *reader {
	t.Helper()
	r := &reader{w: w}
	about := func(e verbs.AsyncEvent) bool { return e.Port == port || e.Type == verbs.EventDeviceFatal }
	if err := r.Open(d, w, about, func(e verbs.AsyncEvent) { r.told = append(r.told, e) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func worker(t *testing.T) *uct.Worker {
	t.Helper()
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func desk(t *testing.T) (*Dispatcher, *verbstest.Kernel) {
	t.Helper()
	k := verbstest.New()
	ctx, err := verbs.NewContext(k.Open(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ctx.Close() })
	d := new(Dispatcher)
	d.Open(ctx, true)
	return d, k
}

// TestDistribution checks that any worker that wakes reads the events for all boxes, and that each
// box gets the events that concern it. When the box that has the descriptor in its worker's event
// set is closed, another box adds the descriptor instead.
func TestDistribution(t *testing.T) {
	d, k := desk(t)
	w, other := worker(t), worker(t)
	first, second, third := open(t, d, w, 1), open(t, d, w, 2), open(t, d, other, 1)
	if !first.watched || second.watched || !third.watched {
		t.Errorf("watched by %v, %v, %v", first.watched, second.watched, third.watched)
	}
	k.SetPort(false)
	w.Events().Poll()
	if first.Waiting() {
		w.Events().Poll()
	}
	if len(first.told) != 1 || len(second.told) != 0 || len(third.told) != 0 || !third.Waiting() {
		t.Errorf("told %v, %v, %v", first.told, second.told, third.told)
	}
	if n := third.Read(); n != 1 || third.told[0].Type != verbs.EventPortErr {
		t.Errorf("%d events: %v", n, third.told)
	}
	first.Close()
	if !second.watched || d.Boxes() != 2 {
		t.Errorf("watched: %v, %d boxes", second.watched, d.Boxes())
	}
	k.Remove()
	for range 3 {
		w.Events().Poll()
		other.Events().Poll()
	}
	for _, r := range []*reader{second, third} {
		if n := len(r.told); n == 0 || r.told[n-1].Type != verbs.EventDeviceFatal {
			t.Errorf("of the end of the device: %v", r.told)
		}
	}
	if len(first.told) != 1 {
		t.Errorf("a closed box is told %v", first.told)
	}
}

// TestFull checks that a box that is not read for long keeps only the latest events, in order.
func TestFull(t *testing.T) {
	d, _ := desk(t)
	r := open(t, d, worker(t), 0)
	d.mu.Lock()
	for k := range maxEvents + 10 {
		r.put(verbs.AsyncEvent{Type: verbs.EventPortActive, Port: k})
	}
	d.mu.Unlock()
	r.w.Events().Poll()
	if n := len(r.told); n != maxEvents || r.told[0].Port != 10 || r.told[n-1].Port != maxEvents+9 {
		t.Errorf("told of %d events, from %d on", n, r.told[0].Port)
	}
	if r.Read() != 0 {
		t.Error("told twice")
	}
}

// TestPost checks that functions posted by other goroutines run on the worker's goroutine, until
// one of them closes the box, and that functions posted to a closed box are dropped.
func TestPost(t *testing.T) {
	d, _ := desk(t)
	r := open(t, d, worker(t), 0)
	var ran []int
	posted := make(chan struct{})
	go func() {
		for k := range 4 {
			r.Post(func() {
				if ran = append(ran, k); k == 2 {
					r.Close()
				}
			})
		}
		close(posted)
	}()
	<-posted
	if len(ran) != 0 {
		t.Errorf("ran %v at once", ran)
	}
	r.w.Events().Poll()
	r.Post(func() { ran = append(ran, 4) })
	r.w.Events().Poll()
	if !slices.Equal(ran, []int{0, 1, 2}) || d.Boxes() != 0 {
		t.Errorf("ran %v, %d boxes", ran, d.Boxes())
	}
}
