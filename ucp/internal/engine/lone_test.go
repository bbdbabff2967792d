package engine

import (
	"errors"
	"testing"
)

// TestLone: with a nil engine a waiter leads from Join to Leave. It may have been used before, with
// any engine.
func TestLone(t *testing.T) {
	var e *Engine
	var w Waiter
	failed := errors.New("failed")
	shared := New(nil)
	shared.Ready(&w, Operation)
	shared.Join(&w)
	shared.End(&w, nil)
	shared.Leave(&w)
	for range 2 {
		e.Ready(&w, Operation)
		if w.Waits() || w.Over() {
			t.Fatal("a waiter that has not joined waits, or its wait is over")
		}
		e.Join(&w)
		if !w.Waits() || !w.Leads() || w.Over() {
			t.Fatal("a waiter that has joined does not lead, or its wait is over")
		}
		e.News()
		e.Sleeps(true)
		if e.AnnounceNews() || e.Woken() != 0 {
			t.Error("there is somebody to tell")
		}
		e.Sleeps(false)
		e.End(&w, failed)
		if !w.Over() || w.Err() != failed {
			t.Errorf("a wait that has ended: %v, %v", w.Over(), w.Err())
		}
		e.Leave(&w)
	}
}
