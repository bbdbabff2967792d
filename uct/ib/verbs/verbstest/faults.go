//go:build linux

package verbstest

import (
	"fmt"
	"slices"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// faults is the fault injection of a network. Fabric.mu guards it.
type faults struct {
	hook    Hook
	counts  Counts
	clock   uint64 // messages delivered plus idle steps: the clock of Fate.Hold
	packets []*heldDatagram
	spare   []*heldDatagram
	message Message          // the message that the hook sees
	head    [headLength]byte // buffer for message.Head
}

// heldDatagram is a datagram that the fault hook has held.
type heldDatagram struct {
	due    uint64
	copies int
	end    *port
	packet packet
	data   pieces // the bytes of buf
	buf    []byte
}

// never is the due time of messages that are held until Release.
const never = ^uint64(0)

// askHook lets the hook decide the fate of a message to queue pair qpn. The parameter end is the
// destination port, nil if the address is unreachable.
func (q *qp) askHook(w *request, end *port, qpn uint32) Fate {
	x := &q.f.k.net.faults
	x.counts.Messages++
	if x.hook == nil {
		return Fate{}
	}
	x.message = Message{Number: x.counts.Messages, From: q.f.k, FromPort: int(q.attr.PortNum), FromQP: q.num, ToQP: qpn, Datagram: q.typ == abi.IB_UVERBS_QPT_UD,
		Opcode: w.op, Length: int(w.length), Try: q.sendState.tries}
	if end != nil {
		x.message.To = end.k
	}
	if w.op != abi.IB_UVERBS_WR_RDMA_READ && !isAtomic(w.op) {
		n := min(x.message.Length, headLength)
		q.f.k.net.scratch.bounce.gather(local(x.head[:n]), w.local.list)
		x.message.Head = x.head[:n]
	}
	q.sendState.tries++
	return x.hook(&x.message)
}

// until returns the due time of a message that is held from now on for hold messages; see
// Fate.Hold.
func (x *faults) until(hold int) uint64 {
	x.counts.Held++
	if hold < 0 {
		return never
	}
	return x.clock + uint64(hold)
}

// deliverDatagram delivers a datagram to the port end, subject to the fault hook. If end is nil, the datagram
// is dropped.
func (q *qp) deliverDatagram(w *request, end *port, p *packet) {
	x := &q.f.k.net.faults
	fate := q.askHook(w, end, p.qpn)
	q.sendState = sendState{}
	switch {
	case fate.Drop:
		x.counts.Dropped++
		return
	case end == nil:
		return
	}
	x.counts.Copied += uint64(fate.Copies)
	if fate.Hold != 0 {
		x.hold(fate, end, p, &w.local, &q.f.k.net.scratch.bounce)
		if fate.Copies == 0 {
			return
		}
		fate.Copies = 0
	}
	for range 1 + fate.Copies {
		end.arrive(p, &w.local)
	}
	x.clock++
}

// hold keeps a datagram, or its copies, until it is due.
func (x *faults) hold(fate Fate, end *port, p *packet, data *pieces, by *bounce) {
	l := &heldDatagram{}
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

// arrivals delivers the held datagrams that are due.
func (x *faults) arrivals() {
	if len(x.packets) == 0 {
		return
	}
	kept := x.packets[:0]
	for _, l := range x.packets {
		if l.due > x.clock {
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

// sendState is the progress of the work request that a connected queue pair is executing.
type sendState struct {
	tries    int
	held     bool
	due      uint64
	number   uint64 // of a held request: its number among the messages that were held
	answered bool   // the request was executed, but its answer was lost
}

// due reports whether the queue pair's held message is due.
func (q *qp) due() bool { return q.sendState.held && !q.isHeld() }

// isHeld reports whether the queue pair's message is still held.
func (q *qp) isHeld() bool { return q.sendState.held && q.sendState.due > q.f.k.net.faults.clock }

// lost returns the status of a request that was lost, or the answer to which was lost. A request of
// an RC queue pair is retried at once, except every 64th try, which waits, so that the loop ends.
func (q *qp) lost() uint32 {
	const enough = 64
	if q.typ != abi.IB_UVERBS_QPT_RC {
		return wcSuccess
	}
	status := q.retry(&q.retries, q.attr.RetryCnt, wcRetryExc)
	if status == wait && q.sendState.tries%enough != 0 {
		return again
	}
	return status
}

// maxBroken is the largest number of rule violations that are kept.
const maxBroken = 64

// broke records that a program has violated a rule of the device interface. The caller holds
// Fabric.mu.
func (k *Kernel) broke(format string, args ...any) {
	text := k.cfg.Name + ": " + fmt.Sprintf(format, args...)
	if len(k.broken) < maxBroken {
		k.broken = append(k.broken, text)
	}
	k.net.say(text)
}

// broke is Kernel.broke for a program that has the device open. It ignores violations after the
// program has ended: doorbells that it leaves behind for destroyed queues are not its fault.
func (f *file) broke(format string, args ...any) {
	if f.space == nil || !f.space.Gone() {
		f.k.broke(format, args...)
	}
}

// say passes text to the log function, if there is one. The caller holds Fabric.mu.
func (n *Fabric) say(text string) {
	if n.log != nil {
		n.log(text)
	}
}
