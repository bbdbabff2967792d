//go:build linux

package verbstest

import (
	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
)

// Statuses of completions; enum ib_wc_status, ib_verbs.h.
const (
	wcSuccess     = 0
	wcLocLen      = 1
	wcLocQPOp     = 2
	wcLocProt     = 4
	wcFlush       = 5
	wcMWBind      = 6
	wcRemInvReq   = 9
	wcRemAccess   = 10
	wcRetryExc    = 12
	wcRNRRetryExc = 13

	wait = ^uint32(0) // not done yet
)

// Flags of a work request; enum ib_send_flags, ib_verbs.h.
const (
	flagSignaled  = 1 << 1
	flagSolicited = 1 << 2
	flagInline    = 1 << 3
)

// run does all work requests that can be done. Lock held.
func (k *Kernel) run() {
	uverbs.RaceReceived()
	// A request that comes to its end may let another end that was looked at
	// before; queues are bounded, so rounds are too.
	for again := true; again; {
		again = false
		for _, q := range k.qps {
			again = q.drain() || again
		}
	}
}

// drain does the work requests of a queue pair until one has to wait, and reports
// whether there was any.
func (q *qp) drain() (did bool) {
	for n := q.sq.waiting(); n > 0; n-- {
		if q.attr.QpState == stateErr {
			q.fail()
			return true
		}
		if q.attr.QpState != stateRTS {
			return did
		}
		w := q.request(q.sq.at(q.sq.index))
		status := q.execute(w)
		if status == wait {
			return did
		}
		did = true
		q.retries, q.rnr = 0, 0
		q.complete(w, status)
		if status != wcSuccess {
			q.fail()
			return true
		}
	}
	return did
}

// request is a work request as copied from the queue.
type request struct {
	wqe    abi.RxeSendWqe
	tail   []byte // of the element, behind the fixed part
	sges   []abi.RxeSge
	broken bool
}

// request copies what the user can change meanwhile.
func (q *qp) request(b []byte) *request {
	w := &request{wqe: load[abi.RxeSendWqe](b), tail: append([]byte(nil), b[sendWQESize:]...)}
	d := &w.wqe.Dma
	if w.wqe.Wr.SendFlags&flagInline != 0 {
		w.broken = d.Length > q.cap.MaxInlineData || int(d.Length) > len(w.tail)
		return w
	}
	w.sges, w.broken = sges(d, w.tail, q.cap.MaxSendSge)
	return w
}

// sges reads a gather list.
func sges(d *abi.RxeDmaInfo, b []byte, most uint32) (list []abi.RxeSge, broken bool) {
	const size = 16
	if d.NumSge > most || int(d.NumSge)*size > len(b) {
		return nil, true
	}
	total := uint64(0)
	for i := range int(d.NumSge) {
		s := load[abi.RxeSge](b[i*size:])
		total += uint64(s.Length)
		list = append(list, s)
	}
	return list, total != uint64(d.Length) || d.Resid != d.Length || d.CurSge != 0 || d.SgeOffset != 0
}

// local is the memory that a gather list names, in pieces.
func (p *pd) local(k *Kernel, list []abi.RxeSge, access uint32) (pieces [][]byte, ok bool) {
	for _, s := range list {
		if s.Length == 0 {
			continue
		}
		m := k.mrs[s.Lkey>>8]
		if m == nil || m.lkey != s.Lkey || m.pd != p || m.access&access != access {
			return nil, false
		}
		b, ok := m.at(s.Addr, uint64(s.Length))
		if !ok {
			return nil, false
		}
		pieces = append(pieces, b)
	}
	return pieces, true
}

// at is the memory of a region from an address that the device knows.
func (m *mr) at(addr, n uint64) ([]byte, bool) {
	off := addr - m.iova
	if addr < m.iova || off > m.length || n > m.length-off {
		return nil, false
	}
	return memory(m.start+off, int(n)), true
}

// remote is memory of a peer's protection domain.
func (q *qp) remote(key uint32, addr, n uint64, access uint32) ([]byte, bool) {
	if w := q.f.k.mws[key>>8]; w != nil {
		if w.rkey != key || w.qp != q || w.access&access != access || addr < w.addr || addr-w.addr > w.length || n > w.length-(addr-w.addr) {
			return nil, false
		}
		return w.mr.at(addr, n)
	}
	m := q.f.k.mrs[key>>8]
	if m == nil || m.rkey == 0 || m.rkey != key || m.pd != q.pd || m.access&access != access {
		return nil, false
	}
	return m.at(addr, n)
}

// complete ends a work request.
func (q *qp) complete(w *request, status uint32) {
	q.sq.consume()
	wr := &w.wqe.Wr
	if status == wcSuccess && wr.SendFlags&flagSignaled == 0 && !q.sigAll {
		return
	}
	wc := abi.Wc{WrId: wr.WrId, Status: status, QpNum: q.num}
	if status == wcSuccess {
		wc.Opcode = map[uint32]uint32{
			abi.IB_UVERBS_WR_RDMA_WRITE: abi.IB_UVERBS_WC_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM: abi.IB_UVERBS_WC_RDMA_WRITE,
			abi.IB_UVERBS_WR_RDMA_READ: abi.IB_UVERBS_WC_RDMA_READ, abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP: abi.IB_UVERBS_WC_COMP_SWAP,
			abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD: abi.IB_UVERBS_WC_FETCH_ADD, abi.IB_UVERBS_WR_LOCAL_INV: abi.IB_UVERBS_WC_LOCAL_INV,
			abi.IB_UVERBS_WR_BIND_MW: abi.IB_UVERBS_WC_BIND_MW,
		}[wr.Opcode] // sends are 0
		wc.ByteLen = w.wqe.Dma.Length
	}
	q.send.complete(wc, false)
}

// fail puts the queue pair into the error state and flushes what is posted.
func (q *qp) fail() {
	q.attr.QpState = stateErr
	for n := q.sq.waiting(); n > 0; n-- {
		w := load[abi.RxeSendWqe](q.sq.at(q.sq.index))
		q.sq.consume()
		q.send.complete(abi.Wc{WrId: w.Wr.WrId, Status: wcFlush, QpNum: q.num}, false)
	}
	if q.rq == nil {
		return
	}
	for n := q.rq.waiting(); n > 0; n-- {
		w := load[abi.RxeRecvWqe](q.rq.at(q.rq.index))
		q.rq.consume()
		q.recv.complete(abi.Wc{WrId: w.WrId, Status: wcFlush, QpNum: q.num, Opcode: abi.IB_WC_RECV}, false)
	}
}

// reset forgets what is posted.
func (q *qp) reset() {
	for q.sq.waiting() > 0 {
		q.sq.consume()
	}
	for q.rq != nil && q.rq.waiting() > 0 {
		q.rq.consume()
	}
	q.attr = abi.ModifyQp{}
	q.retries, q.rnr = 0, 0
}

// retry counts a try in vain; it says when to give up. As in rdma_rxe, 7 is for
// ever.
func retry(tries *uint8, most uint8, status uint32) uint32 {
	if most == 7 {
		return wait
	}
	if *tries >= most {
		return status
	}
	*tries++
	return wait
}
