//go:build linux

package ib

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// seeker is an interface that hears of searches, and its worker.
func (s *searching) seeker() (*Iface, *uct.Worker) {
	w, err := uct.NewWorker()
	if err != nil {
		s.Fatal(err)
	}
	i := &Iface{Domain: s.domain, Worker: w, RecvCQ: new(verbs.CQ)}
	if err := s.domain.news.subscribe(i); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		s.domain.news.unsubscribe(i)
		w.Close()
	})
	return i, w
}

// until progresses a worker until something is so.
func (s *searching) until(w *uct.Worker, what string, so func() bool) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(deadline) {
			s.Fatalf("%s: that does not come about", what)
		}
		w.PollEvents()
		w.Progress()
	}
}

// TestSeek: who seeks a way goes on, and is told when it was found, or not; who is told already,
// or has gone, is not.
func TestSeek(t *testing.T) {
	s := newSearching(t)
	d := s.domain
	i, w := s.seeker()
	gone, _ := s.seeker()
	told, found := 0, 0
	tell := func(so bool) {
		if told++; so {
			found++
		}
	}
	a, b := s.to(1), s.to(2)
	answers := []chan<- syscall.Errno{s.silent(a), s.silent(b)}
	again := a
	again.FlowLabel++
	for _, to := range []verbs.AHAttr{a, again, b} {
		if !d.Seek(to, i, tell) {
			t.Errorf("%+v is not sought", to)
		}
	}
	if !d.Seek(a, gone, func(bool) { t.Error("told though it has gone") }) {
		t.Error("not sought for two")
	}
	d.news.unsubscribe(gone)
	w.Progress()
	if told != 0 || d.KnowsWay(a) || d.KnowsWay(b) {
		t.Errorf("told %d times before anybody has answered", told)
	}
	answers[0] <- 0
	s.until(w, "news of the first", func() bool { return told == 2 })
	answers[1] <- syscall.ETIMEDOUT
	s.until(w, "news of the second", func() bool { return told == 3 })
	if found != 2 || !d.KnowsWay(a) || !d.KnowsWay(again) || d.KnowsWay(b) {
		t.Error("what was found is not known, or what was not is")
	}
	if d.Seek(again, i, tell) {
		t.Error("a way that is known is sought")
	}
	if err := d.handles.close(); err != nil {
		t.Error(err)
	}
	if n := s.kernel.Objects(); n != 1 {
		t.Errorf("%d objects are left", n)
	}
}

// TestSeekMany: there are few searches at once, fewer of those that anybody can cause, and a
// bounded number wait for their turn.
func TestSeekMany(t *testing.T) {
	s := newSearching(t)
	d := s.domain
	i, w := s.seeker()
	gate := make(chan syscall.Errno)
	s.mu.Lock()
	for n := range 512 {
		s.answer[s.to(n).DGID] = gate
	}
	s.mu.Unlock()
	sought := 0
	for n := range 20 {
		if d.Seek(s.to(n), nil, nil) {
			sought++
		}
	}
	if sought != maxStrangers {
		t.Errorf("%d searches for strangers", sought)
	}
	told, others := 0, 0
	for n := 20; n < 512; n++ {
		if d.Seek(s.to(n), i, func(bool) { told++ }) {
			others++
		}
	}
	if others != maxSearches-maxStrangers+maxQueued || d.handles.hunt.begun != maxSearches {
		t.Errorf("%d other searches, %d under way", others, d.handles.hunt.begun)
	}
	most := 0
	for range sought + others {
		gate <- syscall.ETIMEDOUT
		d.handles.mu.Lock()
		most = max(most, d.handles.hunt.begun)
		d.handles.mu.Unlock()
	}
	s.until(w, "the end of all", func() bool { return told == others })
	if most > maxSearches || len(d.handles.hunt.under) != 0 || d.handles.hunt.begun != 0 {
		t.Errorf("%d at once, %+v", most, d.handles.hunt.under)
	}
}

// TestSeekClosed: the end of a domain waits for what has begun, and for nothing else.
func TestSeekClosed(t *testing.T) {
	s := newSearching(t)
	d := s.domain
	i, _ := s.seeker()
	gate := make(chan syscall.Errno)
	s.mu.Lock()
	for n := range 40 {
		s.answer[s.to(n).DGID] = gate
	}
	s.mu.Unlock()
	for n := range 40 {
		d.Seek(s.to(n), i, func(bool) { t.Error("told") })
	}
	d.news.unsubscribe(i)
	go func() {
		h := &d.handles
		for left := 1; left > 0; runtime.Gosched() { // else others may begin before the end
			h.mu.Lock()
			left = len(h.hunt.queue)
			h.mu.Unlock()
		}
		for range maxSearches {
			gate <- 0
		}
	}()
	if err := d.handles.close(); err != nil {
		t.Error(err)
	}
	if n := s.kernel.Objects(); n != 1 {
		t.Errorf("%d objects are left", n)
	}
}
