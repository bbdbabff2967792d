//go:build linux

package mlx5

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// qp is a queue pair. The goroutines that post sends, post receives and poll do not share cache
// lines: padding separates the fields that one writes from those that another reads.
type qp struct {
	sendQueue
	_ [64]byte

	rq recvQueue
	_  [64]byte

	// Fields that the goroutines that poll read.
	ctx            *context
	number         uint32 // identifies the queue pair in completions: user index or QPN
	sendCQ, recvCQ *cq
	srq            *srq // nil: the receives are in rq

	request    abi.Mlx5CreateQp
	answer     abi.Mlx5CreateQpResp
	layout     layout
	mem        []byte    // the receive queue, then the send queue
	dynReg     *register // register that Detach returns to ctx.pages, nil if none
	ownsNumber bool      // number was allocated from ctx.numbers, to which Detach returns it
	live       bool      // the queue pair is in ctx.qps
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

// prepare allocates the resources that the request to the kernel refers to, and fills in the
// request.
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
		q.number, q.ownsNumber = c.numbers.take()
		c.mu.Unlock()
		if !q.ownsNumber {
			return fmt.Errorf("verbs: %s: more than %d queue pairs: %w", c.dev.Name(), maxNumber, ucs.ErrNoResource)
		}
		q.request.Uidx = q.number
	}
	if c.pages.dynamic {
		if q.dynReg, err = c.pages.get(c); err != nil {
			return err
		}
		q.request.Flags, q.request.BfregIndex = abi.MLX5_QP_FLAG_UAR_PAGE_INDEX, q.dynReg.page
	}
	return nil
}

func (q *qp) Data() (in, out []byte) { return abi.Bytes(&q.request), abi.Bytes(&q.answer) }

// Attach stores the queue pair's number and register, and corrects the capacities, because those in
// the kernel's response do not describe queues that programs lay out (providers/mlx5/verbs.c,
// create_qp).
func (q *qp) Attach(m *provider.QPMade) (err error) {
	c, l := q.ctx, &q.layout
	reg := q.dynReg
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

// Reset saves the existing completions, see drain, and starts again at entry 0, as the device does
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
	if q.ownsNumber {
		q.ownsNumber = false
		c.numbers.put(q.number)
	}
	c.mu.Unlock()
	q.sendQueue.detach()
	q.rq.detach()
	if q.dynReg != nil {
		c.pages.put(q.dynReg)
		q.dynReg = nil
	}
	if q.rec != nil {
		c.records.put(q.rec)
		q.rec = nil
	}
	unmapQueue(q.mem)
	q.mem = nil
}

func (q *qp) PostRecv(wr []provider.RecvWR) (int, error) { return q.rq.post(wr) }
