//go:build linux

package rxe

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// recvQueue is a ring of receives, of a queue pair or shared.
type recvQueue struct {
	ring ring
	sges int
}

func (q *recvQueue) mmap(d provider.Device, mi abi.Mminfo, sges int) error {
	q.sges = sges
	if err := q.ring.mmap(d, mi, recvSize+sges*sgeSize); err != nil {
		return err
	}
	// A ring that takes the place of another begins with what was in that.
	q.ring.own = q.ring.published()
	return nil
}

// post fills slots and hands them to the kernel, which looks for them itself.
func (q *recvQueue) post(wrs []provider.RecvWR) (int, error) {
	if q.ring.mem == nil {
		return 0, provider.ErrNoRQ
	}
	for i := range wrs {
		if err := q.fill(&wrs[i]); err != nil {
			q.ring.publish()
			return i, err
		}
	}
	q.ring.publish()
	return len(wrs), nil
}

// fill writes one request into the slot at own.
func (q *recvQueue) fill(wr *provider.RecvWR) error {
	if !q.ring.room() {
		return provider.ErrQueueFull
	}
	n, err := provider.Length(wr.SGList, q.sges)
	if err != nil {
		return err
	}
	w := q.ring.recv(q.ring.own)
	*w = abi.RxeRecvWqe{WrId: wr.ID, Dma: abi.RxeDmaInfo{Length: n, Resid: n, NumSge: uint32(len(wr.SGList))}}
	for i := range wr.SGList {
		put(recvSGE(w, i), &wr.SGList[i])
	}
	q.ring.own = q.ring.next()
	return nil
}

// srq is a ring of receives that queue pairs share.
type srq struct {
	ctx  *context
	resp abi.RxeCreateSrqResp
	rq   recvQueue
}

func (s *srq) Data() (in, out []byte) { return nil, abi.Bytes(&s.resp) }

func (s *srq) Attach(m *provider.SRQMade) error { return s.rq.mmap(s.ctx.dev, s.resp.Mi, m.MaxSGE) }

func (s *srq) Detach() { s.rq.ring.unmap() }

func (s *srq) PostRecv(wr []provider.RecvWR) (int, error) { return s.rq.post(wr) }

// LimitData is where the kernel would write the place of a new ring, which it does
// only if the size changes.
func (s *srq) LimitData() []byte { return abi.Bytes(&abi.RxeModifySrqCmd{}) }

// Resize refuses what the kernel would: a resize that fails costs rdma_rxe the queue
// (rxe_srq_from_attr, drivers/infiniband/sw/rxe/rxe_srq.c).
func (s *srq) Resize(maxWR *int) (provider.Resizing, error) {
	if n := s.rq.ring.held(); *maxWR < n {
		return nil, fmt.Errorf("verbs: %s: a shared receive queue for %d work requests, with %d in it: %w", s.ctx.dev.Name(), *maxWR, n, ucs.ErrInvalidParam)
	}
	cell, err := s.ctx.cells.get()
	if err != nil {
		return nil, err
	}
	return &srqResizing{srq: s, cell: cell}, nil
}

// srqResizing is a change of the ring's size. The kernel writes the place of the new
// one to an address that it is given.
type srqResizing struct {
	srq  *srq
	cell []byte
}

func (r *srqResizing) Data() (in, out []byte) {
	return abi.Bytes(&abi.RxeModifySrqCmd{MmapInfoAddr: addressOf(r.cell)}), nil
}

func (r *srqResizing) Done(*int) error {
	var mi abi.Mminfo
	copy(abi.Bytes(&mi), r.cell)
	r.Failed()
	s := r.srq
	s.rq.ring.unmap()
	return s.rq.mmap(s.ctx.dev, mi, s.rq.sges)
}

func (r *srqResizing) Failed() { r.srq.ctx.cells.put(r.cell) }
