//go:build linux

package paper

import (
	"maps"
	"slices"

	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// The adapter: it carries over what is in the queues of the program to those of
// verbstest, and completions back.

// hwCQ is a completion queue: the program's, and the one below.
type hwCQ struct {
	queue
	hw    provider.CQ
	next  uint32 // to be written
	armed bool   // at least once
	seq   uint64 // of the last arming
	since bool   // something has completed since that
}

type hwSRQ struct {
	queue
	hw   provider.SRQ
	next uint32 // to be taken
}

type hwQP struct {
	sq, rq         queue
	hw             provider.QP
	typ            provider.QPType
	qpn            uint32
	shared         bool
	sends          []byte // the memory of hw's sends
	sent, received uint32 // blocks taken
}

// Run has devices do what their bells ask for. Receives are taken first, of all:
// adapters look for them when a message arrives.
func Run(devices ...*Device) {
	for _, step := range []func(*Device){(*Device).prepare, (*Device).transmit, (*Device).complete} {
		for _, d := range devices {
			d.mu.Lock()
			if d.page != nil {
				step(d)
			}
			d.mu.Unlock()
		}
	}
}

func (d *Device) prepare() {
	for h, c := range d.cqs {
		c.arm(h, cqBell(d.page, h))
	}
	for _, s := range d.srqs {
		s.next = receive(&s.queue, s.next, s.hw.PostRecv)
	}
	for _, q := range d.qps {
		if !q.shared {
			q.received = receive(&q.rq, q.received, q.hw.PostRecv)
		}
	}
}

func (d *Device) transmit() {
	for _, h := range slices.Sorted(maps.Keys(d.qps)) {
		q := d.qps[h]
		bell := qpBell(d.page, q.qpn)
		if order.Uint64(bell) == rungBell|uint64(q.qpn) {
			order.PutUint64(bell, 0)
			q.run(d)
		}
	}
	d.kernel.Progress()
}

func (d *Device) complete() {
	for _, c := range d.cqs {
		c.complete()
	}
}

// receive posts receives below, and returns up to where they are taken.
func receive(q *queue, next uint32, post func([]provider.RecvWR) (int, error)) uint32 {
	for ; next != q.program(); next++ {
		b := q.at(next)
		wr := provider.RecvWR{ID: order.Uint64(b)}
		for k := range int(b[8]) {
			wr.SGList = append(wr.SGList, getPiece(b[16+k*pieceSize:]))
		}
		if n, _ := post([]provider.RecvWR{wr}); n == 0 {
			break
		}
		q.setDevice(next + 1)
	}
	return next
}

// run posts sends below.
func (q *hwQP) run(d *Device) {
	for q.sent != q.sq.program() {
		var s send
		s.get(q.sq.at(q.sent))
		var data []byte // behind the first block, in one piece
		for i := range uint32(s.blocks) - 1 {
			data = append(data, q.sq.at(q.sent+1+i)...)
		}
		var list []provider.SGE
		for k := range int(s.pieces) {
			p := getPiece(data[k*pieceSize:])
			s.wr.Length += p.Length
			list = append(list, p)
		}
		from, to, ok := q.hw.Begin(&s.wr, list)
		if !ok {
			panic("paper: more sends than there is room for below")
		}
		if s.inlined > 0 {
			copy(q.sends[from:to], data[:s.inlined])
			q.hw.Inlined(int(s.inlined))
		}
		if q.typ == provider.UD {
			q.hw.Address(d.ahs[s.ah], provider.QPN(s.qpn), provider.QKey(s.qkey))
		}
		q.sent += uint32(s.blocks)
		q.sq.setDevice(q.sent)
	}
	q.hw.Ring(0)
}

// arm looks at the bell of the queue. One with the number of an event that was made
// already does nothing: the program has not taken that event.
func (c *hwCQ) arm(h uint32, bell []byte) {
	v := order.Uint64(bell)
	order.PutUint64(bell, 0)
	seq := v & armSeq
	if v&rungBell == 0 || uint32(v) != h || c.armed && seq == c.seq && c.since {
		return
	}
	c.armed, c.seq, c.since = true, seq, false
	c.hw.Arm(v&armMarked != 0)
}

// complete hands completions to the program.
func (c *hwCQ) complete() {
	var wc [1]provider.WC
	for c.hw.Poll(wc[:]) == 1 {
		if c.next-c.program() >= c.n {
			panic("paper: more completions than there is room for")
		}
		c.since = true
		b := c.at(c.next)
		putWC(b, &wc[0])
		b[block-1] = owner(&c.queue, c.next)
		c.next++
	}
}
