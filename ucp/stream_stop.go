package ucp

import (
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/uct"
)

// Streams that the application does not read. What is unread is memory that the peer
// makes us hold, and is charged as unexpected messages are (budget.go). Unlike those it
// cannot be thrown away without an end of the stream. So a connection is not read any
// more when a stream holds much that it has brought, and TCP tells the peer to wait; it
// is read again when half of that is free.
//
// All else that comes on the connection waits as well: who expects a tagged message
// behind unread bytes has to read those first. But what an operation of ours waits for,
// an answer to a flush, a rendezvous, an acknowledgement, must come whatever the
// application reads, or two workers that wait for each other's answers would do so for
// ever. So no connection is stopped while the endpoint expects an answer, and one that
// is stopped is read again as soon as something is started that does. What comes until
// the answer is here is held within UCX_MAX_UNEXP_BYTES, as ever: beyond it who holds
// most loses its connection, and its endpoint fails. An endpoint that is being closed
// keeps nothing, and so is always read.
//
// Two peers that stop each other wait for their applications, as with any stream. Sends
// do not: they expect no answer.
//
// Shared memory has one ring for all peers of a worker, whom it does not tell apart, and
// for it not to be read would stop them all. There the budget of the process is the
// limit. A stream that does not fit into it is over: its endpoint fails, what came before
// can be read, and the peer is told.

const (
	defaultUnread = 1 << 20  // UCX_STREAM_MAX_UNREAD=auto
	leastUnread   = 64 << 10 // where the process holds much
)

// mostUnread is what a stream may hold now before its connection is stopped.
func (w *Worker) mostUnread() int {
	if ledger.Total(ledger.Bytes) > int64(w.maxHeld/2) {
		return min(w.stream.most, leastUnread)
	}
	return w.stream.most
}

// stop stops the reading of a connection, if it can be and nothing is expected from
// there.
func (s *stream) stop(from *source) {
	if s.stopped != nil || from.uct == nil || s.ep.expects() {
		return
	}
	p, ok := from.uct.Owner.(uct.SourcePauser)
	if !ok {
		return
	}
	w := s.ep.w
	s.stopped = from
	from.stopped++
	w.stream.stopped = append(w.stream.stopped, s)
	w.stats.Stopped++
	p.PauseSource()
}

// goOn ends that.
func (s *stream) goOn() {
	from := s.stopped
	s.forgetStop()
	from.stopped--
	from.readOn()
}

// forgetStop takes the stream off the list.
func (s *stream) forgetStop() {
	list := &s.ep.w.stream.stopped
	*list = slices.DeleteFunc(*list, func(o *stream) bool { return o == s })
	s.stopped = nil
}

// lookAtStopped goes on reading the connections of peers from which something is
// expected, and returns their number.
func (w *Worker) lookAtStopped() (n int) {
	w.stream.look = false
	for k := len(w.stream.stopped) - 1; k >= 0; k-- {
		if s := w.stream.stopped[k]; s.ep.expects() {
			s.goOn()
			n++
		}
	}
	return n
}

// expects reports whether an answer of the endpoint's peer is expected, by this or
// another endpoint: also one of its transport.
func (ep *Endpoint) expects() bool {
	if ep.peer == nil {
		return ep.expectsAnswer()
	}
	return ep.expectsAnswer() || slices.ContainsFunc(ep.peer.ends, (*Endpoint).expectsAnswer)
}

func (ep *Endpoint) expectsAnswer() bool { return ep.flushes > 0 || ep.waitsForPeer() }

// overrun ends an endpoint whose stream does not fit any more.
func (ep *Endpoint) overrun(err error) {
	ep.w.ctx.log.Debug("a stream ends: no memory", zap.String("endpoint", ep.describe()), zap.Error(err))
	if ep.peer != nil { // or it is this worker
		ep.reject()
	}
	ep.fail(err)
}
