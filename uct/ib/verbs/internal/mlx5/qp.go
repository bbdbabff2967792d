//go:build linux

package mlx5

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// qp is a queue pair. Who posts sends, who posts receives and who polls are not in each
// other's way: what one writes is not close to what another reads.
type qp struct {
	sendQueue
	_ [64]byte

	rq recvQueue
	_  [64]byte

	// What those who poll look at.
	ctx            *context
	number         uint32 // that completions name
	sendCQ, recvCQ *cq
	srq            *srq // nil: the receives are in rq

	request abi.Mlx5CreateQp
	answer  abi.Mlx5CreateQpResp
	layout  layout
	mem     []byte    // receives, then sends
	got     *register // to be given back
	named   bool      // number is ours to give back
	live    bool      // in the table
}

func (c *context) NewQP(a *provider.QPInit) (provider.QP, error) {
	l, err := c.limits.layOut(a)
	if err != nil {
		return nil, err
	}
	q := &qp{ctx: c, sendCQ: a.SendCQ.(*cq), recvCQ: a.RecvCQ.(*cq), layout: l}
	if a.SRQ != nil {
		q.srq = a.SRQ.(*srq)
	}
	if err := q.prepare(); err != nil {
		q.Detach()
		return nil, err
	}
	a.Cap.MaxInline = l.inline
	q.sendQueue.init(q, a)
	q.rq.init(q.mem, &l, q.rec)
	return q, nil
}

// prepare gets all that the kernel is told of.
func (q *qp) prepare() (err error) {
	c, l := q.ctx, &q.layout
	if q.mem, err = mapQueue(l.bytes()); err != nil {
		return err
	}
	if q.rec, err = c.records.get(); err != nil {
		return err
	}
	q.request = abi.Mlx5CreateQp{DbAddr: addressOfRecord(q.rec), SqWqeCount: l.blocks, RqWqeCount: l.receives,
		RqWqeShift: l.recvShift, Uidx: maxNumber}
	if q.mem != nil {
		q.request.BufAddr = addressOf(q.mem)
	}
	if c.uidx {
		c.mu.Lock()
		q.number, q.named = c.numbers.take()
		c.mu.Unlock()
		if !q.named {
			return fmt.Errorf("verbs: %s: more than %d queue pairs: %w", c.dev.Name(), maxNumber, ucs.ErrNoResource)
		}
		q.request.Uidx = q.number
	}
	if c.pages.dynamic {
		if q.got, err = c.pages.get(c); err != nil {
			return err
		}
		q.request.Flags, q.request.BfregIndex = abi.MLX5_QP_FLAG_UAR_PAGE_INDEX, q.got.page
	}
	return nil
}

func (q *qp) Data() (in, out []byte) { return abi.Bytes(&q.request), abi.Bytes(&q.answer) }

// Attach takes the number and the register, and says what fits: the kernel's answer is
// not about queues of programs (providers/mlx5/verbs.c, create_qp).
func (q *qp) Attach(m *provider.QPMade) (err error) {
	c, l := q.ctx, &q.layout
	reg := q.got
	if reg == nil {
		if reg, err = c.pages.static(c, q.answer.BfregIndex); err != nil {
			return err
		}
	}
	q.qpn, q.reg = uint32(m.QPN)&0xffffff, reg
	if !c.uidx {
		q.number = q.qpn
	}
	c.mu.Lock()
	c.qps.set(q.number, q)
	q.live = true
	c.mu.Unlock()
	m.Cap = provider.QPCap{MaxSendWR: int(l.posts), MaxSendSGE: l.pieces, MaxInline: l.inline,
		MaxRecvWR: int(l.receives), MaxRecvSGE: l.recvPieces}
	m.Sends = q.mem[l.recvBytes():][:l.sendBytes()]
	return nil
}

// Reset drops what has completed, and begins where the device does: with entry 0
// (providers/mlx5/verbs.c, mlx5_modify_qp).
func (q *qp) Reset() {
	if q.rec == nil {
		return
	}
	q.ctx.mu.Lock()
	defer q.ctx.mu.Unlock()
	q.drain(false)
	q.sendQueue.reset()
	q.rq.reset()
	setRecord(q.rec, abi.MLX5_RCV_DBR, 0)
	setRecord(q.rec, abi.MLX5_SND_DBR, 0)
}

func (q *qp) Detach() {
	c := q.ctx
	c.mu.Lock()
	if q.live {
		q.live = false
		q.drain(true)
	}
	if q.named {
		q.named = false
		c.numbers.put(q.number)
	}
	c.mu.Unlock()
	q.sendQueue.detach()
	q.rq.detach()
	if q.got != nil {
		c.pages.put(q.got)
		q.got = nil
	}
	if q.rec != nil {
		c.records.put(q.rec)
		q.rec = nil
	}
	unmapQueue(q.mem)
	q.mem = nil
}

func (q *qp) PostRecv(wr []provider.RecvWR) (int, error) { return q.rq.post(wr) }
