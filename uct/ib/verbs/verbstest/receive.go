//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// The receiving end of a message.

// receives is the queue that the queue pair takes receives from, and how many pieces
// of memory one has at most.
func (q *qp) receives() (r *ring, most uint32) {
	if q.srq != nil {
		return q.srq.ring, q.srq.maxSGE
	}
	return q.rq, q.cap.MaxRecvSge
}

// hasReceive reports whether a message can be received.
func (q *qp) hasReceive() bool {
	r, _ := q.receives()
	return r.waiting() > 0
}

// take takes the next receive for a message of n bytes. Its memory is in the desk's
// space then, and wc has what it says of the completion, which is the caller's to
// make. Other statuses than wcSuccess are what the sender is told.
func (q *qp) take(n int, wc *abi.Wc) uint32 {
	r, most := q.receives()
	if r.waiting() == 0 {
		return wcRNRRetryExc
	}
	b := r.at(r.index)
	d := &q.f.k.net.desk
	fetch(&d.recv, b)
	var room [maxSGE]abi.RxeSge
	list, broken := gatherList(room[:], &d.recv.Dma, b[recvWQESize:], most)
	ok := d.space.fill(q.f.k, q.pd, list, abi.IB_UVERBS_ACCESS_LOCAL_WRITE)
	r.consume()
	if q.srq != nil && q.srq.limit > 0 && r.waiting() < q.srq.limit {
		q.srq.limit = 0
		q.f.event(eventSRQLimit, q.srq.user)
	}
	wc.WrId, wc.QpNum, wc.PortNum = d.recv.WrId, q.num, q.attr.PortNum
	switch {
	case broken || n > int(d.recv.Dma.Length):
		wc.Status = wcLocLen
	case !ok:
		wc.Status = wcLocProt
	default:
		return wcSuccess
	}
	q.recv.complete(&abi.Wc{WrId: wc.WrId, Status: wc.Status, QpNum: q.num}, true)
	if q.typ != abi.IB_UVERBS_QPT_UD {
		q.fail()
	}
	return wcRemInvReq
}

// receive takes a receive for a message and completes it.
func (q *qp) receive(data *pieces, wc *abi.Wc, solicited bool) uint32 {
	if status := q.take(data.size(), wc); status != wcSuccess {
		return status
	}
	move(q.f.k.net.desk.space.list, data.list)
	q.recv.complete(wc, solicited)
	return wcSuccess
}
