//go:build linux

package rxe

import (
	"encoding/binary"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// qp is a queue pair: a ring of sends, and one of receives unless they are shared. The goroutines
// that post sends and receives do not share cache lines: fields that one writes are far from those
// that the other reads.
type qp struct {
	provider.NoWrap
	sq     ring
	inline int // bytes of inline data that fit into a slot after the request
	bell   doorbell
	ctx    *context
	typ    provider.QPType
	shared bool // the receives are in a shared receive queue
	resp   abi.RxeCreateQpResp
	rq     recvQueue
}

func (q *qp) Data() (in, out []byte) { return nil, abi.Bytes(&q.resp) }

func (q *qp) Attach(m *provider.QPMade) error {
	q.inline = m.Cap.MaxInline
	if err := q.sq.mmap(q.ctx.dev, q.resp.SqMi, sendSize+max(m.Cap.MaxSendSGE*sgeSize, q.inline)); err != nil {
		return err
	}
	m.Sends = q.sq.mem
	if !q.shared {
		if err := q.rq.mmap(q.ctx.dev, q.resp.RqMi, m.Cap.MaxRecvSGE); err != nil {
			return err
		}
	}
	return q.bell.prepare(q.ctx, m.Handle)
}

func (q *qp) Detach() {
	q.sq.unmap()
	q.rq.ring.unmap()
	q.bell.drop(q.ctx)
}

// Reset discards the requests that were not handed to the kernel. The kernel has discarded the
// others, and the indices continue.
func (q *qp) Reset() { q.Drop() }

// Begin writes the fields of a slot that the kernel reads: the union member of the operation, and
// zeros in the fields in which the kernel keeps its state. Without the zeros the kernel would
// continue with the state of the slot's previous request.
func (q *qp) Begin(wr *provider.WR, list []provider.SGE) (from, to int, ok bool) {
	if !q.sq.room() {
		return 0, 0, false
	}
	off, next := q.sq.offset(q.sq.own), q.sq.next()
	w := q.sq.sendAt(off)
	w.Wr.WrId, w.Wr.Opcode, w.Wr.SendFlags = wr.ID, uint32(wr.Opcode), uint32(wr.Flags)
	w.Status, w.State, w.Iova, w.Mask, w.FirstPsn, w.LastPsn = 0, 0, 0, 0, 0, 0
	w.AckLength, w.Ssn, w.HasRdAtomic = 0, 0, 0
	d := &w.Dma
	d.Length, d.Resid, d.CurSge, d.NumSge, d.SgeOffset = wr.Length, wr.Length, 0, uint32(len(list)), 0
	for i := range list {
		put(sge(w, uint32(i)), &list[i])
	}
	switch wr.Opcode {
	case provider.WRSendWithImm:
		w.Wr.Ex = swap32(wr.Imm)
	case provider.WRSendWithInv, provider.WRLocalInv:
		w.Wr.Ex = wr.Imm
	case provider.WRRDMAWriteWithImm:
		w.Wr.Ex = swap32(wr.Imm)
		fallthrough
	case provider.WRRDMAWrite, provider.WRRDMARead:
		r := rdmaOf(w)
		r.RemoteAddr, r.Rkey = wr.RemoteAddr, uint32(wr.RKey)
		w.Iova = wr.RemoteAddr
	case provider.WRAtomicCmpAndSwp, provider.WRAtomicFetchAndAdd:
		a := atomicOf(w)
		a.RemoteAddr, a.CompareAdd, a.Swap, a.Rkey = wr.RemoteAddr, wr.CompareAdd, wr.Swap, uint32(wr.RKey)
		w.Iova = wr.RemoteAddr
	}
	q.sq.own = next
	from = off + sendSize
	return from, from + q.inline, true
}

// last returns the entry that was begun last.
func (q *qp) last() *abi.RxeSendWqe { return q.sq.send(q.sq.own - 1) }

func put(p *abi.RxeSge, s *provider.SGE) { p.Addr, p.Length, p.Lkey = s.Addr, s.Length, uint32(s.LKey) }

func (q *qp) Address(a provider.AH, qpn provider.QPN, qkey provider.QKey) {
	u := udOf(q.last())
	u.RemoteQpn, u.RemoteQkey, u.PkeyIndex, u.AhNum = uint32(qpn), uint32(qkey), 0, a.(*ah).resp.AhNum
}

func (q *qp) Bind(b provider.Bind) error {
	*mwOf(q.last()) = abi.RxeMwWr{Addr: b.Addr, Length: b.Length, MrLkey: uint32(b.LKey), MwRkey: uint32(b.Old), Rkey: uint32(b.New), Access: b.Access}
	return nil
}

func (q *qp) Gather(s provider.SGE) {
	w := q.last()
	d := &w.Dma
	put(sge(w, d.NumSge), &s)
	d.NumSge++
	d.Length += s.Length
	d.Resid = d.Length
}

func (q *qp) Inlined(n int) {
	w := q.last()
	w.Wr.SendFlags |= uint32(provider.SendInline)
	w.Dma.Length, w.Dma.Resid = uint32(n), uint32(n)
}

func (q *qp) Undo() { q.sq.own = (q.sq.own - 1) & q.sq.mask }

func (q *qp) Drop() {
	if q.sq.mem != nil {
		q.sq.own = q.sq.published()
	}
}

// Ring rings the doorbell for all published requests, including those whose doorbell has failed
// before.
func (q *qp) Ring(inlined int) error {
	if inlined != 0 {
		q.Inlined(inlined)
	}
	q.sq.publish()
	e := syscall.EPERM
	if !q.bell.useIoctl {
		_, e = q.bell.file.Write(q.bell.cmd)
	}
	if e != 0 {
		return q.bell.ringFailed(q.ctx, e)
	}
	return nil
}

func (q *qp) PostRecv(wr []provider.RecvWR) (int, error) { return q.rq.post(wr) }

// swap32 converts immediate data between native byte order and big-endian order, that of the wire.
func swap32(v uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], v)
	return binary.BigEndian.Uint32(b[:])
}
