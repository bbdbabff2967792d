//go:build linux

package verbstest

import (
	"slices"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

// faults are what happens to messages on their way. Lock held.
type faults struct {
	hook    Hook
	counts  Counts
	passed  uint64 // messages that have come through, and idle looks: the time that Fate.Hold counts by
	packets []*late
	spare   []*late
	message Message          // that the hook sees
	head    [headLength]byte // of it
}

// late is a datagram that is held.
type late struct {
	due    uint64
	copies int
	end    *port
	packet packet
	data   pieces // buf
	buf    []byte
}

// never is when what is held until it is released is due.
const never = ^uint64(0)

// ask lets the hook decide what becomes of a message to a queue pair at a port, nil
// for nowhere.
func (q *qp) ask(w *request, end *port, qpn uint32) Fate {
	x := &q.f.k.net.faults
	x.counts.Messages++
	if x.hook == nil {
		return Fate{}
	}
	x.message = Message{Number: x.counts.Messages, From: q.f.k, FromPort: int(q.attr.PortNum), FromQP: q.num, ToQP: qpn, Datagram: q.typ == abi.IB_UVERBS_QPT_UD,
		Opcode: w.op, Length: int(w.length), Try: q.trip.tries}
	if end != nil {
		x.message.To = end.k
	}
	if w.op != abi.IB_UVERBS_WR_RDMA_READ && !isAtomic(w.op) {
		n := min(x.message.Length, headLength)
		q.f.k.net.desk.bounce.gather(local(x.head[:n]), w.local.list)
		x.message.Head = x.head[:n]
	}
	q.trip.tries++
	return x.hook(&x.message)
}

// until is when what is held from now on is due.
func (x *faults) until(hold int) uint64 {
	x.counts.Held++
	if hold < 0 {
		return never
	}
	return x.passed + uint64(hold)
}

// carry brings a datagram to a port, nil for none.
func (q *qp) carry(w *request, end *port, p *packet) {
	x := &q.f.k.net.faults
	fate := q.ask(w, end, p.qpn)
	q.trip = trip{}
	switch {
	case fate.Drop:
		x.counts.Dropped++
		return
	case end == nil:
		return
	}
	x.counts.Copied += uint64(fate.Copies)
	if fate.Hold != 0 {
		x.hold(fate, end, p, &w.local, &q.f.k.net.desk.bounce)
		if fate.Copies == 0 {
			return
		}
		fate.Copies = 0
	}
	for range 1 + fate.Copies {
		end.arrive(p, &w.local)
	}
	x.passed++
}

// hold keeps a datagram, or its copies.
func (x *faults) hold(fate Fate, end *port, p *packet, data *pieces, by *bounce) {
	l := &late{}
	if n := len(x.spare); n > 0 {
		l, x.spare = x.spare[n-1], x.spare[:n-1]
	}
	l.due, l.copies, l.end, l.packet = x.until(fate.Hold), max(fate.Copies, 1), end, *p
	l.buf = slices.Grow(l.buf[:0], data.size())[:data.size()]
	by.gather(local(l.buf), data.list)
	l.data.clear()
	l.data.add(local(l.buf))
	x.packets = append(x.packets, l)
}

// arrivals has the datagrams arrive whose time has come.
func (x *faults) arrivals() {
	if len(x.packets) == 0 {
		return
	}
	kept := x.packets[:0]
	for _, l := range x.packets {
		if l.due > x.passed {
			kept = append(kept, l)
			continue
		}
		for range l.copies {
			l.end.arrive(&l.packet, &l.data)
		}
		x.spare = append(x.spare, l)
	}
	x.packets = kept
}

// trip is how far the work request has come that a connected queue pair is at.
type trip struct {
	tries    int
	held     bool
	due      uint64
	answered bool // it is done, but the answer was lost
}

// due reports whether the time of the queue pair's message has come.
func (q *qp) due() bool { return q.trip.held && !q.stopped() }

// stopped reports whether the queue pair's message is held still.
func (q *qp) stopped() bool { return q.trip.held && q.trip.due > q.f.k.net.faults.passed }

// lost is what becomes of a request that was lost, or whose answer was: it is tried
// again at once, but not for ever.
func (q *qp) lost() uint32 {
	const enough = 64
	if q.typ != abi.IB_UVERBS_QPT_RC {
		return wcSuccess
	}
	status := q.retry(&q.retries, q.attr.RetryCnt, wcRetryExc)
	if status == wait && q.trip.tries%enough != 0 {
		return again
	}
	return status
}
