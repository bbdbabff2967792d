//go:build linux

package rxe

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// recvQueue is a ring of receive requests, of a queue pair or of a shared receive queue.
type recvQueue struct {
	ring ring
	sges int
}

func (q *recvQueue) mmap(d provider.Device, mi abi.Mminfo, sges int) error {
	q.sges = sges
	if err := q.ring.mmap(d, mi, recvSize+sges*sgeSize); err != nil {
		return err
	}
	// After Resize the new ring begins with the contents of the old one.
	q.ring.own = q.ring.published()
	return nil
}

// post fills slots and hands them to the kernel, which finds them without a doorbell. It returns
// the number of requests posted; the error is that of the request after these.
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

// fill writes one request into the slot at index q.ring.own.
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

// srq is a shared receive queue: a ring of receive requests.
type srq struct {
	ctx  *context
	resp abi.RxeCreateSrqResp
	rq   recvQueue
}

func (s *srq) Data() (in, out []byte) { return nil, abi.Bytes(&s.resp) }

func (s *srq) Attach(m *provider.SRQMade) error { return s.rq.mmap(s.ctx.dev, s.resp.Mi, m.MaxSGE) }

func (s *srq) Detach() { s.rq.ring.unmap() }

func (s *srq) PostRecv(wr []provider.RecvWR) (int, error) { return s.rq.post(wr) }

// LimitData returns a command without the address to which the kernel writes the location of a new
// ring, because the kernel makes a new ring only if the size changes.
func (s *srq) LimitData() []byte { return abi.Bytes(&abi.RxeModifySrqCmd{}) }

// Resize refuses a size that the kernel would refuse, because after a resize that fails rdma_rxe
// has no queue any more (rxe_srq_from_attr, drivers/infiniband/sw/rxe/rxe_srq.c).
func (s *srq) Resize(maxWR *int) (provider.Resizing, error) {
	if n := s.rq.ring.unconsumed(); *maxWR < n {
		return nil, fmt.Errorf("verbs: %s: resizing a shared receive queue to %d work requests while it holds %d: %w", s.ctx.dev.Name(), *maxWR, n, ucs.ErrInvalidParam)
	}
	cell, err := s.ctx.cells.get()
	if err != nil {
		return nil, err
	}
	return &srqResizing{srq: s, location: cell}, nil
}

// srqResizing is a change of a shared receive queue's size in progress. The kernel writes the
// location of the new ring to cell, memory whose address is in the request.
type srqResizing struct {
	srq      *srq
	location []byte
}

func (r *srqResizing) Data() (in, out []byte) {
	return abi.Bytes(&abi.RxeModifySrqCmd{MmapInfoAddr: addressOf(r.location)}), nil
}

func (r *srqResizing) Done(*int) error {
	var mi abi.Mminfo
	copy(abi.Bytes(&mi), r.location)
	r.Failed()
	s := r.srq
	s.rq.ring.unmap()
	return s.rq.mmap(s.ctx.dev, mi, s.rq.sges)
}

func (r *srqResizing) Failed() { r.srq.ctx.cells.put(r.location) }
