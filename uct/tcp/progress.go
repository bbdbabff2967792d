//go:build linux

package tcp

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// Tuning of the progress loop.
const (
	// maxHot is the number of connections that are read without asking epoll. A
	// conversation has one connection, or two when both sides opened one.
	maxHot = 2

	// hotRounds is the number of empty reads in a row after which a connection is
	// left to epoll again. It covers a round trip over a real network.
	hotRounds = 512

	// pollEvery is the number of rounds between polls of the event set while
	// connections are hot, so that the others are served too.
	pollEvery = 4

	// crowdEvents is the number of events during which nothing becomes hot after
	// more connections than maxHot were seen active at once: then one epoll_wait
	// is cheaper than reading each.
	crowdEvents = 256
)

var _ interface {
	uct.Service
	uct.Armer
	uct.Pusher
} = (*service)(nil)

// Progress writes what was collected since the last round, receives, and writes
// what the handlers sent.
func (s *service) Progress() int {
	n := 0
	if len(s.dirty) != 0 {
		n += s.settle()
	}
	if len(s.hot) == 0 {
		n += s.w.AwaitEvents()
	} else {
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

// readHot reads the hot connections, and polls the event set now and then.
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
	if s.rounds++; s.rounds >= pollEvery {
		s.rounds = 0
		n += s.w.PollEvents()
	}
	return n
}

// HandleEvent is told that the socket is ready.
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

// settle looks after the dirty connections. Those that become dirty meanwhile
// are left for the next call, so that completions which send again cannot keep
// it going for ever.
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

// settle does what c became dirty for and returns the number of things done.
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
		// Control frames may have waited for the caller's memory to go.
	}
	n += c.complete()
	if ep := c.ep; ep != nil && c.state == stateConnected && !ep.pending.Empty() {
		if c.acceptsMore() {
			n += ep.pending.Dispatch()
		}
		if c.state == stateConnected && c.ep == ep && !ep.pending.Empty() && !c.blocked {
			// It waits for something else than the socket.
			c.iface.svc.markDirty(c)
		}
	}
	if c.state != stateClosed && (c.due() || c.written != c.accepted && !c.blocked) {
		c.iface.svc.markDirty(c)
	}
	return n
}

// Arm writes what is collected and says whether the event set will report
// everything that is still to come.
func (s *service) Arm() error {
	busy := false
	for _, c := range s.dirty {
		if c.state == stateClosed {
			continue
		}
		c.push()
		// What the kernel did not take is announced by EPOLLOUT.
		busy = busy || c.due() || c.resumed ||
			!c.blocked && (c.written != c.accepted || c.owed != 0 || c.ep != nil && !c.ep.pending.Empty())
	}
	if busy || !s.failures.Empty() {
		return ucs.ErrBusy
	}
	return nil
}

// Push implements uct.Pusher.
func (s *service) Push() {
	for _, c := range s.dirty {
		if c.state != stateClosed {
			c.push()
		}
	}
}

// push writes what is collected.
func (c *conn) push() {
	if !c.blocked && c.pay() {
		c.write()
	}
}

// Close ends the service. Its ifaces are closed by then.
func (s *service) Close() error {
	s.leaveSiblings()
	s.watch.stop()
	s.half.stop()
	s.slow.stop()
	s.diag.Close()
	s.news.close(s.w.Events())
	return nil
}
