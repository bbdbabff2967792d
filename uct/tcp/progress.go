//go:build linux

package tcp

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// Tuning of the progress loop.
const (
	// maxHot is the largest number of hot connections, which are read in each round without
	// polling epoll. Two communicating peers have one connection, or two if each side opened
	// one.
	maxHot = 2

	// hotRounds is the number of empty reads in a row after which a connection is
	// read only when epoll reports it. It covers a round trip over a real network.
	hotRounds = 512

	// pollEvery is the number of rounds between polls of the event set while there
	// are hot connections, so that the other connections are served too: the first number if the last round
	// has read nothing, and at most the second.
	pollEvery     = 4
	pollBusyEvery = 16

	// groupCheckEvents is the number of events during which no connection becomes hot, after more
	// than maxHot connections were active at once. One epoll_wait is then cheaper than a read
	// of each connection.
	groupCheckEvents = 256
)

var _ uct.Service = (*service)(nil)

// Progress writes the output collected since the last round, receives, and writes the output of
// the handlers.
func (s *service) Progress() int {
	n := 0
	if len(s.dirty) != 0 {
		n += s.settle()
	}
	switch {
	case len(s.hot) == 0:
		n += s.w.AwaitEvents()
	case s.w.PollsNow():
		s.rounds = 0
		n += s.w.PollEvents()
	default:
		n += s.readHot()
	}
	if len(s.dirty) != 0 {
		n += s.settle()
	}
	if !s.failures.Empty() {
		n += s.failures.Report()
	}
	return n
}

// readHot reads the hot connections, and now and then polls the event set.
func (s *service) readHot() int {
	n := 0
	kept := s.hot[:0]
	for _, c := range s.hot {
		if c.state == stateClosed || !c.readable() {
			c.hot = false
			continue
		}
		got := c.read()
		n += got
		if got != 0 {
			c.quiet = 0
		} else if c.quiet++; c.quiet >= hotRounds || c.state == stateClosed {
			c.hot = false
			continue
		}
		kept = append(kept, c)
	}
	clear(s.hot[len(kept):])
	s.hot = kept
	if s.rounds++; s.rounds >= pollEvery && n == 0 || s.rounds >= pollBusyEvery {
		s.rounds = 0
		n += s.w.PollEvents()
	}
	return n
}

// HandleEvent handles events of the socket.
func (c *conn) HandleEvent(ev event.Events) {
	if c.tls != nil && c.tls.handle(ev) {
		return
	}
	if c.state == stateConnecting {
		c.connectDone()
		return
	}
	if (c.ended || c.paused) && ev&(event.Err|event.Hup) != 0 {
		c.lost("read", c.socketError())
		return
	}
	if ev&event.Write != 0 {
		c.blocked = false
		c.write()
		c.iface.svc.markDirty(c)
	}
	if ev&(event.Read|event.Err|event.Hup) != 0 && c.state != stateClosed && !c.paused {
		c.iface.svc.warm(c)
		c.read()
	}
}

// settle processes the dirty connections. Connections that become dirty meanwhile are left to
// the next call, so that completions which send again cannot keep settle running forever.
func (s *service) settle() int {
	list := s.dirty
	s.dirty = s.spare[:0]
	n := 0
	for i, c := range list {
		list[i] = nil
		c.dirty = false
		n += c.settle()
	}
	s.spare = list[:0]
	return n
}

// settle does the work for which c became dirty: input after a pause, output, completions and
// pending requests. It returns the number of things done.
func (c *conn) settle() int {
	if c.state == stateClosed {
		return 0
	}
	n := 0
	if c.resumed {
		if n = c.catchUp(); c.state == stateClosed {
			return n
		}
	}
	for !c.blocked && c.pay() && c.write() {
		// Control frames may have waited until the caller's memory was written.
	}
	n += c.complete()
	if ep := c.ep; ep != nil && c.state == stateConnected && !ep.pending.Empty() {
		if c.acceptsMore() {
			n += ep.pending.Dispatch()
		}
		if c.state == stateConnected && c.ep == ep && !ep.pending.Empty() && !c.blocked {
			// The pending request waits for something other than the socket.
			c.iface.svc.markDirty(c)
		}
	}
	if c.state != stateClosed && (c.due() || c.written != c.accepted && !c.blocked) {
		c.iface.svc.markDirty(c)
	}
	return n
}

// Arm implements uct.Progressor: it writes the collected output, and returns ErrBusy if there is
// work left that the event set will not report.
func (s *service) Arm(uct.EventFlags) error {
	busy := false
	for _, c := range s.dirty {
		if c.state == stateClosed {
			continue
		}
		c.push()
		// EPOLLOUT reports when the kernel takes more of a blocked connection's output.
		busy = busy || c.due() || c.resumed ||
			!c.blocked && (c.written != c.accepted || c.owed != 0 || c.ep != nil && !c.ep.pending.Empty())
	}
	if busy || !s.failures.Empty() {
		return ucs.ErrBusy
	}
	return nil
}

// Push implements uct.Service.
func (s *service) Push() {
	for _, c := range s.dirty {
		if c.state != stateClosed {
			c.push()
		}
	}
}

// push writes the collected output and the owed control frames.
func (c *conn) push() {
	if !c.blocked && c.pay() {
		c.write()
	}
}

// Close ends the service. Its ifaces must be closed already.
func (s *service) Close() error {
	s.leaveSiblings()
	s.watch.stop()
	s.half.stop()
	s.slow.stop()
	s.diag.Close()
	s.notifier.close(s.w.Events())
	return nil
}
