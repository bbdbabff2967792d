package sim

import (
	"cmp"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Progress implements uct.Progressor. It delivers the messages that are due and then progresses
// each endpoint.
func (i *iface) Progress() int {
	if i.inProgress {
		return 0
	}
	i.inProgress = true
	i.receive()
	n := len(i.batch)
	if i.shuffle != nil {
		i.reorder()
	}
	for k, p := range i.batch {
		i.batch[k] = nil
		from, last := p.from, p.last
		if i.closed { // by a handler
			i.net.recycle(p)
		} else {
			i.deliver(p)
		}
		if !last {
			i.net.mu.Lock()
			from.handled()
			i.net.mu.Unlock()
		}
	}
	i.batch = i.batch[:0]
	n += i.progressEndpoints()
	n += i.waiting.Dispatch() + i.failures.Report()
	i.inProgress = false
	return n
}

// progressEndpoints progresses the endpoints that have work, in the order of their creation.
func (i *iface) progressEndpoints() (n int) {
	i.net.mu.Lock()
	i.working, i.actives = append(i.working[:0], i.actives...), i.actives[:0]
	for _, e := range i.working {
		e.active = false
	}
	i.net.mu.Unlock()
	slices.SortFunc(i.working, func(a, b *endpoint) int { return cmp.Compare(a.number, b.number) })
	for k, e := range i.working {
		n += e.progress()
		i.net.mu.Lock()
		if e.hasWork() {
			e.activate()
		}
		i.net.mu.Unlock()
		i.working[k] = nil
	}
	return n
}

// hasWork reports whether rounds to come have something to do for the endpoint, or may have. The
// caller holds net.mu.
func (e *endpoint) hasWork() bool {
	return e.ops.head != nil || e.lost != nil || !e.pending.Empty() || e.timed.expires != 0
}

// receive starts a round and moves the messages that are due from the inbox to the batch. It
// reads zero-copy messages from the sender's memory.
func (i *iface) receive() {
	i.net.mu.Lock()
	defer i.net.mu.Unlock()
	i.round++
	if i.o.Medium != nil && i.blocked() {
		return
	}
	now := i.now()
	var waiting []*packet // messages of paused sources
	taken := 0
	for _, p := range i.inbox {
		if p.due > now {
			break
		}
		taken++
		if i.waits(p) && !p.canceled {
			waiting = append(waiting, p)
			continue
		}
		if p.canceled {
			i.net.recycleLocked(p)
			continue
		}
		if p.last {
			i.batch = append(i.batch, p)
			continue
		}
		p.gather()
		p.from.acknowledge(p)
		p.from.timed.inHand++
		i.batch = append(i.batch, p)
	}
	if len(waiting) > 0 {
		taken -= copy(i.inbox[taken-len(waiting):], waiting)
	}
	rest := copy(i.inbox, i.inbox[taken:])
	clear(i.inbox[rest:])
	i.inbox = i.inbox[:rest]
}

// reorder shuffles the messages of the batch. The messages of one endpoint stay in order.
func (i *iface) reorder() {
	queues := make(map[*endpoint][]*packet)
	turns := make([]*endpoint, len(i.batch))
	for k, p := range i.batch {
		queues[p.from] = append(queues[p.from], p)
		turns[k] = p.from
	}
	i.shuffle.Shuffle(len(turns), func(a, b int) { turns[a], turns[b] = turns[b], turns[a] })
	for k, e := range turns {
		i.batch[k] = queues[e][0]
		queues[e] = queues[e][1:]
	}
}

// deliver runs the handler of p.
func (i *iface) deliver(p *packet) {
	if p.last {
		i.forgetSource(p.from)
		if i.o.NoSources && p.from.died && i.exited != nil {
			i.exited()
		}
		i.net.recycle(p)
		return
	}
	src := i.source(p.from)
	var shown *uct.Source
	if !i.o.NoSources {
		shown = &src.Source
	}
	data := p.buf
	i.tapArrived(p, Arrived, nil)
	var err error
	if i.o.KeepData {
		p.desc = uct.AMDesc{Owner: i, Index: i.keep(p)}
		if err = i.handlers.Deliver(shown, p.id, data, &p.desc); err == ucs.InProgress {
			return
		}
		i.kept[p.desc.Index] = nil
	} else {
		err = i.handlers.Deliver(shown, p.id, data, nil)
	}
	if err != nil {
		i.tapArrived(p, Dropped, err)
		if shown != nil {
			shown.Drop(err)
		}
	}
	i.net.recycle(p)
}

// source is the receiver's view of a peer's endpoint.
type source struct {
	uct.BasicSource
	uct.Source
	from *endpoint
	to   *iface
}

// source returns the source of a peer's endpoint, and creates it at the first call.
func (i *iface) source(from *endpoint) *source {
	s := i.sources[from]
	if s == nil {
		s = &source{from: from, to: i}
		if s.Owner = s; from.home.o.Place != nil {
			s.Owner = located{source: s}
		}
		i.sources[from] = s
	}
	return s
}

// DropSource implements uct.SourceOwner.
func (s *source) DropSource(error) {
	net := s.from.home.net
	net.mu.Lock()
	if _, open := s.from.peer.incoming[s.from]; open {
		s.from.breakLater(ucs.ErrConnectionReset)
	}
	net.mu.Unlock()
	s.Gone()
}

// forgetSource ends the source of an endpoint after the endpoint's last message.
func (i *iface) forgetSource(from *endpoint) {
	if s := i.sources[from]; s != nil {
		delete(i.sources, from)
		delete(i.paused, from)
		s.Gone()
	}
}

// keep stores a packet that a handler may keep, and returns its index.
func (i *iface) keep(p *packet) int {
	for k, q := range i.kept {
		if q == nil {
			i.kept[k] = p
			return k
		}
	}
	i.kept = append(i.kept, p)
	return len(i.kept) - 1
}

// ReleaseDesc implements uct.DescOwner.
func (i *iface) ReleaseDesc(d *uct.AMDesc) {
	p := i.kept[d.Index]
	if p == nil || &p.desc != d {
		panic("sim: received data released twice")
	}
	i.kept[d.Index] = nil
	i.net.recycle(p)
}
