package ucp

import (
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// source is a connection that made the worker hold something: messages nobody
// has received, messages that are not complete, endpoints toward the peer. When a
// limit is reached the connection that holds the most gives way, and when a
// connection ends nobody waits for ever for the rest of its messages.
type source struct {
	w   *Worker
	uct *uct.Source // nil: of transports that do not tell connections apart, or over

	held      int // bytes of unexpected messages
	opened    int // endpoints opened by the peer and not claimed by the user
	fragments assemblyList
}

// sourceOf returns the source of a message.
func (w *Worker) sourceOf(src *uct.Source) *source {
	if src == nil {
		return &w.unnamed
	}
	if s, ok := src.User.(*source); ok {
		return s
	}
	s := &source{w: w, uct: src}
	src.User = s
	w.sources = append(w.sources, s)
	return s
}

// SourceGone implements uct.SourceUser.
func (s *source) SourceGone() {
	w := s.w
	s.uct = nil
	if s.held == 0 && s.opened == 0 {
		w.leave(s)
	} // or it still counts: closing a connection gives nothing back
	w.orphan(&s.fragments)
}

// leave takes a source off the list.
func (w *Worker) leave(s *source) {
	if i := slices.Index(w.sources, s); i >= 0 {
		w.sources = slices.Delete(w.sources, i, i+1)
	}
}

// charge reports whether n more bytes from s may be kept for receives that are
// not posted. Beyond the limit, which protects the process, the connection that
// holds most loses its messages and is dropped: by the error, if it is s.
func (w *Worker) charge(s *source, n int) error {
	if n <= w.maxHeld-w.held() {
		return nil
	}
	return w.makeRoom(s, n)
}

func (w *Worker) makeRoom(s *source, n int) error {
	for n > w.maxHeld-w.held() {
		err := fmt.Errorf("ucp: unexpected messages hold %d bytes, %d more exceed UCX_MAX_UNEXP_BYTES=%d: %w",
			w.held(), n, w.maxHeld, ucs.ErrExceedsLimit)
		hog := w.greediest(func(s *source) int { return s.held })
		if hog == nil || hog.held <= s.held+n || hog.held <= w.unnamed.held {
			return err
		}
		w.evict(hog, err)
	}
	return nil
}

// held is the memory of messages without a receive: our buffers, and message
// objects with the transports' memory that they keep.
func (w *Worker) held() int { return w.buffers.Used() + w.kept }

// mayOpen reports whether s may open one more endpoint toward the worker.
func (w *Worker) mayOpen(s *source) error {
	if limit := w.ctx.settings.MaxUnexpEps; w.unexpected >= limit {
		err := fmt.Errorf("ucp: peers have opened %d endpoints, UCX_MAX_UNEXP_EPS=%d: %w", w.unexpected, limit, ucs.ErrExceedsLimit)
		hog := w.greediest(func(s *source) int { return s.opened })
		if hog == nil || hog.opened <= s.opened+1 {
			return err
		}
		w.evict(hog, err)
	}
	return nil
}

// greediest returns the connection with the most of something. It forgets those
// that are over and hold nothing any more.
func (w *Worker) greediest(amount func(*source) int) *source {
	w.sources = slices.DeleteFunc(w.sources, func(s *source) bool { return s.uct == nil && s.held == 0 && s.opened == 0 })
	var hog *source
	for _, s := range w.sources {
		if hog == nil || amount(s) > amount(hog) {
			hog = s
		}
	}
	return hog
}

// evict drops a connection and frees what it made the worker hold.
func (w *Worker) evict(s *source, reason error) {
	log.Warn("dropping the connection that holds most", zap.String("worker", w.name), zap.Int("bytes", s.held),
		zap.Int("endpoints", s.opened), zap.Error(reason))
	w.stats.Evicted++
	w.leave(s)
	w.evicting = true
	for d := w.tm.oldest(); d != nil; {
		next := d.links[arrivalLinks].next
		if d.from == s {
			w.discardMessage(d)
		}
		d = next
	}
	for a := s.fragments.head; a != nil; {
		next := a.next
		if a.req == nil {
			w.giveUp(a, reason)
		}
		a = next
	}
	w.endpoints.Each(func(ep *Endpoint) {
		if ep.openedBy == s {
			ep.destroy(ucs.ErrCanceled)
		}
	})
	if s.uct != nil {
		s.uct.Drop(reason)
	}
	w.evicting = false
}

// orphanTime is how long the rest of a message may take after the end of the
// connection that brought its last fragment. The fragments of one message may
// travel over several connections, which do not end at once.
const orphanTime = time.Second

// orphan is called with the incomplete messages of a connection that is over.
func (w *Worker) orphan(l *assemblyList) {
	if l.head == nil || w.closed {
		return
	}
	until := w.uctw.Now() + orphanTime
	for a := l.head; a != nil; a = l.head {
		a.until = until
		a.moveTo(&w.orphans)
	}
	w.watchOrphans()
}

// watchOrphans sees to it that the oldest orphan is looked at in time: by a
// timer, or where there is no descriptor for one in every round of progress,
// which also tries again to set it.
func (w *Worker) watchOrphans() {
	a := w.orphans.head
	if a == nil {
		w.untimed = false
		return
	}
	wait := a.until - w.uctw.Now()
	var err error
	if w.orphanTimer == nil {
		w.orphanTimer, err = w.uctw.Timers().After(wait, func() { w.expireOrphans() })
	} else {
		err = w.orphanTimer.Reset(wait)
	}
	if err != nil && !w.untimed {
		log.Warn("no timer for incomplete messages", zap.String("worker", w.name), zap.Error(err))
	}
	w.untimed = err != nil
}

// expireOrphans ends the messages whose rest has not come, and returns their
// number.
func (w *Worker) expireOrphans() int {
	n := 0
	now := w.uctw.Now()
	for a := w.orphans.head; a != nil && a.until <= now; a = w.orphans.head {
		w.abandon(a)
		n++
	}
	w.watchOrphans()
	return n
}

// abandon ends a message that will never be complete.
func (w *Worker) abandon(a *assembly) {
	w.stats.Abandoned++
	err := fmt.Errorf("ucp: the connection broke in the middle of a message: %w", ucs.ErrConnectionReset)
	if a.req == nil {
		w.giveUp(a, err)
		return
	}
	w.forget(a)
	a.end(err)
	w.putAssembly(a)
}

// giveUp ends a message without a receive that will never be complete.
func (w *Worker) giveUp(a *assembly, err error) {
	switch {
	case a.message == nil: // nobody has seen it, or its receive is over
		w.discard(a)
	case a.message.removed: // in the hands of the user
		w.forget(a)
		a.dropPieces()
		a.err = err
	default:
		w.discardMessage(a.message)
	}
}

// discardMessage gives up an unexpected message.
func (w *Worker) discardMessage(d *TagMessage) {
	w.tm.removeUnexpected(d)
	if a := d.assembly; a != nil {
		w.discard(a)
	}
	w.putMessage(d)
}

// discard gives up what has come of a message that no receive has. The assembly
// is not used again: a handler up the stack may be at it.
func (w *Worker) discard(a *assembly) {
	w.forget(a)
	a.dropPieces()
	a.message, a.discard = nil, true
}
