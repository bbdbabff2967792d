package uct

import (
	"testing"

	"github.com/ucx-go/ucx/internal/platform"
)

// counted is a progressor that counts its rounds.
type counted struct {
	w      *Worker
	rounds int
	events int // to be had in the next round
	leaves bool
}

func (p *counted) Progress() int {
	p.rounds++
	if p.leaves {
		p.w.RemoveProgress(p)
	}
	n := p.events
	p.events = 0
	return n
}

func (p *counted) Arm(EventFlags) error { return nil }

// restful is a progressor that rests.
type restful struct {
	counted
	busy bool
}

func (p *restful) Rest() bool { return !p.busy }

// adaptiveWorker returns a worker that has progressors, in a test for builds in which some become quiet.
func adaptiveWorker(t *testing.T, list ...Progressor) *Worker {
	if platform.Simulated || restCounts == 0 {
		t.Skip("no progressor becomes quiet here")
	}
	w, err := NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, p := range list {
		w.AddProgress(p)
	}
	return w
}

func rounds(w *Worker, n int) {
	for range n {
		w.Progress()
	}
}

// TestQuiet checks that progressors without events are called less often, but often enough, and that one
// with events is called in every round again.
func TestQuiet(t *testing.T) {
	var list [6]counted
	w := adaptiveWorker(t, &list[0], &list[1], &list[2], &list[3], &list[4], &list[5])
	for range 2 * quietUnused {
		list[2].events = 1
		w.Progress()
	}
	if n := len(w.quiet); n != 5 {
		t.Fatalf("%d progressors are quiet, want 5", n)
	}

	const most = quietGap * quietShare
	for k := range list {
		list[k].rounds = 0
	}
	rounds(w, 10*most)
	for k := range list {
		if n := list[k].rounds; n < 10 {
			t.Errorf("in %d rounds progressor %d was called %d times", 10*most, k, n)
		}
	}
	if list[2].rounds != 10*most {
		t.Errorf("the one with events was called in %d of %d rounds", list[2].rounds, 10*most)
	}

	list[4].events = 1
	rounds(w, most)
	before := list[4].rounds
	rounds(w, quietUnused+10*lookGap)
	if n := list[4].rounds - before; n != quietUnused+10*lookGap {
		t.Errorf("after an event a progressor was called in %d of %d rounds", n, quietUnused+10*lookGap)
	}
}

// TestQuietLastUsed checks that the progressor that had events last is never quiet, and that a sole one is
// not either.
func TestQuietLastUsed(t *testing.T) {
	var first, second counted
	w := adaptiveWorker(t, &first)
	rounds(w, quietAfter+2*quietUnused)
	w.AddProgress(&second)
	second.events = 1
	rounds(w, quietAfter+2*quietUnused)
	if len(w.quiet) != 1 || w.quiet[0] != &first {
		t.Errorf("quiet are %v", w.quiet)
	}
	w.RemoveProgress(&first)
	first.rounds, second.rounds = 0, 0
	rounds(w, 100)
	if first.rounds != 0 || second.rounds != 100 {
		t.Errorf("a removed progressor was called %d times, the sole one %d times", first.rounds, second.rounds)
	}
}

// TestQuietLeaves checks progressors that unregister themselves in a round, while they are quiet or not.
func TestQuietLeaves(t *testing.T) {
	var stays, quiet, active counted
	w := adaptiveWorker(t, &stays, &quiet, &active)
	quiet.w, active.w = w, w
	for range 2 * quietUnused {
		stays.events, active.events = 1, 1
		w.Progress()
	}
	quiet.leaves, quiet.events, active.leaves, active.events = true, 1, true, 1
	rounds(w, 10*quietGap*quietShare)
	if quiet.leaves = false; len(w.quiet) != 0 || len(w.progress) != 1 {
		t.Errorf("%d progressors are quiet, %d are not", len(w.quiet), len(w.progress))
	}
	before := quiet.rounds + active.rounds
	rounds(w, 10*lookGap)
	if n := quiet.rounds + active.rounds - before; n != 0 {
		t.Errorf("progressors that have left were called %d times", n)
	}
}

// TestNotAdaptive checks that SetAdaptive(false) makes every round call all.
func TestNotAdaptive(t *testing.T) {
	var list [3]counted
	w := adaptiveWorker(t, &list[0], &list[1], &list[2])
	w.SetAdaptive(false)
	rounds(w, 3*quietUnused)
	for k := range list {
		if n := list[k].rounds; n != 3*quietUnused {
			t.Errorf("progressor %d was called in %d of %d rounds", k, n, 3*quietUnused)
		}
	}
}

// TestRest checks that a progressor that rests is not called before Rouse, and that one with work does not
// rest.
func TestRest(t *testing.T) {
	var others [2]counted
	var p restful
	w := adaptiveWorker(t, &others[0], &p, &others[1])
	p.busy = true
	rounds(w, 4*quietUnused)
	if len(w.resting) != 0 {
		t.Error("a progressor with work rests")
	}
	p.busy = false
	rounds(w, 2*lookGap)
	if len(w.resting) != 1 {
		t.Fatalf("%d progressors rest", len(w.resting))
	}
	p.rounds = 0
	rounds(w, 1000)
	if p.rounds != 0 {
		t.Errorf("a resting progressor was called %d times", p.rounds)
	}
	w.Rouse(&p)
	rounds(w, 100)
	if p.rounds != 100 {
		t.Errorf("after Rouse a progressor was called in %d of 100 rounds", p.rounds)
	}
}
