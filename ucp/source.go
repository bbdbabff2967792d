package ucp

import (
	"fmt"
	"slices"

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
	for _, f := range w.families {
		f.sourceGone(s)
	}
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
	for _, f := range w.families {
		f.evict(s, reason)
	}
	if s.uct != nil {
		s.uct.Drop(reason)
	}
	w.evicting = false
}

// countAs notes who opened an endpoint that the user does not know of yet.
func (ep *Endpoint) countAs(from *source) {
	ep.openedBy = from
	ep.w.unexpected++
	from.opened++
}

// uncount ends that.
func (ep *Endpoint) uncount() {
	if ep.openedBy != nil {
		ep.openedBy.opened--
		ep.w.unexpected--
		ep.openedBy = nil
	}
}
