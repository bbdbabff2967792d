//go:build linux

package paper

import "github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"

// qp is a queue pair: a queue of sends and one of receives.
type qp struct {
	sq     queue
	rq     recvQueue
	ctx    *context
	qpn    provider.QPN
	shared bool
	answer [answerSize]byte

	head uint32 // where the next send begins
	rung uint32 // what the device was told of
	open bool   // a send has been begun at head
	cur  send   // which is this one
	past bool   // its room goes on at the beginning, and that was asked for
}

func (c *context) NewQP(a *provider.QPInit) (_ provider.QP, err error) {
	q := &qp{ctx: c, shared: a.SRQ != nil}
	if q.sq, err = newQueue(maxBlocks * max(a.Cap.MaxSendWR, 1)); err != nil {
		return nil, err
	}
	if q.rq.queue, err = newQueue(a.Cap.MaxRecvWR); err != nil {
		q.sq.free()
		return nil, err
	}
	a.Cap = provider.QPCap{MaxSendWR: int(q.sq.n), MaxRecvWR: int(q.rq.n), MaxSendSGE: maxPieces, MaxRecvSGE: recvPieces, MaxInline: maxInline}
	return q, nil
}

func (q *qp) Data() (in, out []byte) { return q.rq.name(q.sq.name(nil)), q.answer[:] }

// Attach says what fits.
func (q *qp) Attach(m *provider.QPMade) error {
	q.qpn = m.QPN
	m.Cap = provider.QPCap{MaxSendWR: int(q.sq.n) / maxBlocks, MaxRecvWR: int(q.rq.n), MaxSendSGE: maxPieces, MaxRecvSGE: recvPieces, MaxInline: maxInline}
	if q.shared {
		m.Cap.MaxRecvWR, m.Cap.MaxRecvSGE = 0, 0
	}
	m.Sends = q.sq.mem
	q.ctx.qps.Store(q.qpn, q)
	return nil
}

// Detach leaves it to Poll to drop what has completed of it.
func (q *qp) Detach() {
	q.ctx.qps.CompareAndDelete(q.qpn, q)
	q.sq.free()
	q.rq.free()
}

// Reset begins where the device does.
func (q *qp) Reset() {
	for _, s := range []*queue{&q.sq, &q.rq.queue} {
		s.setProgram(0)
		s.setDevice(0)
	}
	q.head, q.rung, q.open, q.rq.head = 0, 0, false, 0
}

func (q *qp) Begin(wr *provider.WR, list []provider.SGE) (from, to int, ok bool) {
	q.close()
	if q.head+maxBlocks-q.sq.device() > q.sq.n {
		return 0, 0, false
	}
	q.open, q.past = true, false
	q.cur = send{wr: *wr}
	if wr.Flags&provider.SendInline != 0 {
		q.cur.wr.Flags &^= provider.SendInline
		q.cur.inlined = wr.Length
	}
	for _, s := range list {
		q.Gather(s)
	}
	from = int((q.head + 1) % q.sq.n * block)
	return from, min(from+maxInline, int(q.sq.n)*block), true
}

// More is the room at the beginning of an entry that wraps.
func (q *qp) More() (from, to int) {
	end := int((q.head+1)%q.sq.n)*block + maxInline - int(q.sq.n)*block
	if q.past || end <= 0 {
		return 0, 0
	}
	q.past = true
	return 0, end
}

func (q *qp) Address(a provider.AH, qpn provider.QPN, qkey provider.QKey) {
	q.cur.ah, q.cur.qpn, q.cur.qkey = a.(*ah).number(), uint32(qpn), uint32(qkey)
}

func (q *qp) Bind(provider.Bind) error { panic("paper: a bind, which the device lacks") }

func (q *qp) Gather(s provider.SGE) {
	i := uint32(q.cur.pieces)
	putPiece(q.sq.at(q.head + 1 + i*pieceSize/block)[i*pieceSize%block:], s)
	q.cur.pieces++
}

func (q *qp) Inlined(n int) { q.cur.inlined = uint32(n) }
func (q *qp) Undo()         { q.open = false }

func (q *qp) Drop() {
	if q.sq.mem != nil {
		q.head, q.open = q.rung, false
	}
}

// close finishes the send at head: only now its length is known.
func (q *qp) close() {
	if !q.open {
		return
	}
	data := max(int(q.cur.pieces)*pieceSize, int(q.cur.inlined))
	q.cur.blocks = uint8(1 + (data+block-1)/block)
	q.cur.put(q.sq.at(q.head))
	q.head += uint32(q.cur.blocks)
	q.open = false
}

func (q *qp) Ring(inlined int) error {
	if inlined != 0 {
		q.Inlined(inlined)
	}
	q.close()
	q.rung = q.head
	q.sq.setProgram(q.head)
	order.PutUint64(qpBell(q.ctx.page, uint32(q.qpn)), rungBell|uint64(q.qpn))
	return nil
}

func (q *qp) PostRecv(wr []provider.RecvWR) (int, error) {
	if q.shared {
		return 0, provider.ErrNoRQ
	}
	return q.rq.post(wr)
}
