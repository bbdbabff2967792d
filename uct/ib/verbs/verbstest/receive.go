//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// The receiving end of a message.

// receives is the queue that the queue pair takes receives from, nil if there is none.
func (q *qp) receives() recvQueue {
	if q.srq != nil {
		return q.srq.queue
	}
	return q.rq
}

// hasReceive reports whether a message can be received.
func (q *qp) hasReceive() bool {
	r := q.receives()
	return r != nil && r.waiting() > 0
}

// take takes the next receive for a message of n bytes. What it names is in the desk,
// and wc has what it says of the completion, which is the caller's to make, by received.
// Other statuses than wcSuccess are what the sender is told.
func (q *qp) take(n int, wc *abi.Wc) uint32 {
	if !q.hasReceive() {
		return wcRNRRetryExc
	}
	r, d := q.receives(), &q.f.k.net.desk
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

// received completes the receive that was taken last.
func (q *qp) received(wc *abi.Wc, solicited bool) {
	q.recv.complete(completion{wc: *wc, tag: q.f.k.net.desk.recv.tag, q: q, recv: true}, solicited)
}

// receive takes a receive for a message and completes it.
func (q *qp) receive(data *pieces, wc *abi.Wc, solicited bool) uint32 {
	if status := q.take(data.size(), wc); status != wcSuccess {
		return status
	}
	d := &q.f.k.net.desk
	d.bounce.move(d.space.list, data.list)
	q.received(wc, solicited)
	return wcSuccess
}
