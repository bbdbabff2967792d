//go:build linux

package verbstest

import (
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// Receive side of messages.

// receives returns the receive queue of the queue pair, which may be a shared one, nil if it has
// none.
func (q *qp) receives() recvQueue {
	if q.srq != nil {
		return q.srq.queue
	}
	return q.rq
}

// hasReceive reports whether a receive is posted for the queue pair.
func (q *qp) hasReceive() bool {
	r := q.receives()
	return r != nil && r.waiting() > 0
}

// take takes the next receive for a message of n bytes. It stores the receive and its memory in the
// buffers of the network (Fabric.scratch), and sets the fields of wc that depend on the receive. The
// caller then completes the receive by received. A status other than wcSuccess is the answer to the
// sender.
func (q *qp) take(n int, wc *abi.Wc) uint32 {
	if !q.hasReceive() {
		return wcRNRRetryExc
	}
	r, d := q.receives(), &q.f.k.net.scratch
	r.read(&d.recv)
	ok := d.space.fill(q.f.k, q.pd, d.recv.list, nil, abi.IB_UVERBS_ACCESS_LOCAL_WRITE)
	if q.srq != nil && q.srq.limit > 0 && r.waiting() < q.srq.limit {
		q.srq.limit = 0
		q.f.event(eventSRQLimit, q.srq.user)
	}
	wc.QpNum, wc.PortNum = q.num, q.attr.PortNum
	switch {
	case d.recv.broken || uint64(n) > d.recv.length:
		wc.Status = wcLocLen
	case !ok:
		wc.Status = wcLocProt
	default:
		return wcSuccess
	}
	q.received(&abi.Wc{Status: wc.Status, QpNum: q.num}, true)
	if q.typ != abi.IB_UVERBS_QPT_UD {
		q.fail()
	}
	return wcRemInvReq
}

// received completes the receive that take took last.
func (q *qp) received(wc *abi.Wc, solicited bool) {
	q.recv.complete(completion{wc: *wc, tag: q.f.k.net.scratch.recv.tag, q: q, recv: true}, solicited)
}

// receive takes a receive for a message, copies the data and completes the receive. It returns the
// status for the sender.
func (q *qp) receive(data *pieces, wc *abi.Wc, solicited bool) uint32 {
	if status := q.take(data.size(), wc); status != wcSuccess {
		return status
	}
	d := &q.f.k.net.scratch
	d.bounce.move(d.space.list, data.list)
	q.received(wc, solicited)
	return wcSuccess
}

// Receive side of datagrams.

const grhLength = 40

// packet is a datagram in transit: its addresses, its route header and the completion at the
// receiver, without its data.
type packet struct {
	dgid      [16]byte
	multicast bool
	qpn       uint32 // number of the destination queue pair
	qkey      uint32
	pkey      uint16
	global    bool // the packet has a global route header
	ipv4      bool // the header is an IPv4 one
	v1        bool // the packet is RoCE v1
	grh       [grhLength]byte
	solicited bool
	wc        abi.Wc // completion at the receiver
}

// arrive delivers a packet to its destination queue pair. A packet that no queue pair accepts is
// dropped.
func (e *port) arrive(p *packet, data *pieces) {
	to := e.k.qps[p.qpn]
	if to == nil || !e.up() || to.typ != abi.IB_UVERBS_QPT_UD || to.attr.PortNum != e.num || to.attr.QpState < stateRTR ||
		to.attr.QpState == stateErr || to.attr.Qkey != p.qkey || !samePartition(to.pkey(), p.pkey) || p.wc.ByteLen > grhLength+e.mtu() {
		return
	}
	wc := p.wc
	if to.take(int(wc.ByteLen), &wc) != wcSuccess {
		return
	}
	d := &to.f.k.net.scratch
	space, from := d.space.list, 0 // from: bytes of the header area that stay unwritten
	switch cfg := &e.k.cfg; {
	case !p.global || cfg.GRH == GRHNone:
		from = grhLength
	case cfg.GRH == GRHHalf && p.ipv4:
		from = grhLength / 2
	}
	if from < grhLength {
		wc.WcFlags |= abi.IB_WC_GRH
	}
	if !e.InfiniBand {
		if wc.Sl = e.k.cfg.WCSL; wc.Sl == 0 {
			wc.Sl = e.k.kind.packetKind(p)
		}
	}
	space = skip(space, from)
	d.bounce.scatter(space, local(p.grh[from:]))
	d.bounce.move(skip(space, grhLength-from), data.list)
	to.received(&wc, p.solicited)
}
