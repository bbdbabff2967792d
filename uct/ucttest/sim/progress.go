package sim

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Progress implements uct.Progressor: one round. Messages that are due are handed
// out, then each endpoint goes on.
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
		if i.closed { // by a handler
			i.net.recycle(p)
			continue
		}
		i.deliver(p)
	}
	i.batch = i.batch[:0]
	for _, e := range i.endpoints {
		n += e.progress()
	}
	n += i.waiting.Dispatch() + i.failures.Report()
	i.inProgress = false
	return n
}

// receive starts a round and moves what is due from the inbox to the batch.
// Zero-copy messages are read from the sender's memory here.
func (i *iface) receive() {
	i.net.mu.Lock()
	defer i.net.mu.Unlock()
	i.round++
	var waiting []*packet // of sources that are not read
	taken := 0
	for _, p := range i.inbox {
		if p.due > i.round {
			break
		}
		taken++
		if i.paused[p.from] && !p.canceled {
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
		e := p.from
		e.arrived++
		if p.op != nil {
			p.op.packet = nil
			p.op = nil
			e.home.wake()
		}
		if e.watching {
			e.watching = false
			e.home.wake()
		}
		i.batch = append(i.batch, p)
	}
	if len(waiting) > 0 {
		taken -= copy(i.inbox[taken-len(waiting):], waiting)
	}
	rest := copy(i.inbox, i.inbox[taken:])
	clear(i.inbox[rest:])
	i.inbox = i.inbox[:rest]
}

// reorder mixes the messages of the batch, leaving those of one endpoint in
// their order.
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
		i.net.recycle(p)
		return
	}
	src := i.source(p.from)
	data := p.buf
	i.tapArrived(p, Arrived, nil)
	var err error
	if i.o.KeepData {
		p.desc = uct.AMDesc{Owner: i, Index: i.keep(p)}
		if err = i.handlers.Deliver(&src.Source, p.id, data, &p.desc); err == ucs.InProgress {
			return
		}
		i.kept[p.desc.Index] = nil
	} else {
		err = i.handlers.Deliver(&src.Source, p.id, data, nil)
	}
	if err != nil {
		i.tapArrived(p, Dropped, err)
		src.DropSource(err)
	}
	i.net.recycle(p)
}

// source is an endpoint of a peer as the receiver sees it.
type source struct {
	uct.Source
	from *endpoint
	to   *iface
}

// source returns what the receiver keeps for an endpoint.
func (i *iface) source(from *endpoint) *source {
	s := i.sources[from]
	if s == nil {
		s = &source{from: from, to: i}
		if s.Owner = s; from.home.o.Place != nil {
			s.Owner = located{s}
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
		s.from.lose(ucs.ErrConnectionReset)
	}
	net.mu.Unlock()
	s.Gone()
}

// forgetSource is called after the last message of an endpoint.
func (i *iface) forgetSource(from *endpoint) {
	if s := i.sources[from]; s != nil {
		delete(i.sources, from)
		delete(i.paused, from)
		s.Gone()
	}
}

// keep finds a place for a packet that may be kept.
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
