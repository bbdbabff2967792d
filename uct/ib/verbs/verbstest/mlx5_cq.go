//go:build linux

package verbstest

import (
	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/internal/word"
)

// mlx5CQ is a completion queue in a program's memory. Indices run free; the device's is
// of 24 bits where the program sees it.
type mlx5CQ struct {
	c       *cq
	num     uint32
	version uint8
	buf     piece
	rec     piece
	entries uint32 // a power of two
	size    int    // of an entry
	next    uint32 // to be written
	seen    uint32 // the word of the last arming
	known   bool   // there was one
	page    *uar
	ended   bool
	wrong   bool // the index of the consumer was, and that has been said
	entry   abi.Mlx5Cqe64
	freed   func()
}

const indexMask = 1<<24 - 1

// used is how many entries the program has not taken.
func (q *mlx5CQ) used() uint32 {
	n := (q.next - q.rec.be32(0)) & indexMask
	if n <= q.entries {
		q.wrong = false
		return n
	}
	if !q.wrong {
		q.wrong = true
		q.c.f.broke("completion queue %#x: the record has the consumer at %#x, with %d entries of which the next is %#x", q.num, q.rec.be32(0), q.entries, q.next&indexMask)
	}
	return q.entries
}

func (q *mlx5CQ) full() bool { return q.used() >= q.entries }

func (q *mlx5CQ) end() {
	q.ended = true
	q.freed()
}

// blank reports whether memory is that of a queue in which nothing is. entries is a power
// of two.
func blank(buf piece, entries uint32, size int) bool {
	b := make([]byte, min(int(entries), 1024)*size)
	for off := 0; off < int(entries)*size; off += len(b) {
		buf.read(off, b)
		for i := size - 1; i < len(b); i += size {
			if b[i] != abi.MLX5_CQE_INVALID<<4 {
				return false
			}
		}
	}
	return true
}

// responseOf is the operation of the completion of a receive.
func responseOf(wc *abi.Wc) uint8 {
	switch {
	case wc.Opcode == abi.IB_WC_RECV_RDMA_WITH_IMM:
		return abi.MLX5_CQE_RESP_WR_IMM
	case wc.WcFlags&abi.IB_WC_WITH_IMM != 0:
		return abi.MLX5_CQE_RESP_SEND_IMM
	case wc.WcFlags&abi.IB_WC_WITH_INVALIDATE != 0:
		return abi.MLX5_CQE_RESP_SEND_INV
	}
	return abi.MLX5_CQE_RESP_SEND
}

// syndromes are how failures are told; prov/cq.c, mlx5_handle_error_cqe.
var syndromes = map[uint32]uint8{
	wcLocLen: abi.MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, wcLocQPOp: abi.MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR,
	wcLocProt: abi.MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, wcFlush: abi.MLX5_CQE_SYNDROME_WR_FLUSH_ERR,
	wcMWBind: abi.MLX5_CQE_SYNDROME_MW_BIND_ERR, wcRemInvReq: abi.MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR,
	wcRemAccess: abi.MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, wcRetryExc: abi.MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR,
	wcRNRRetryExc: abi.MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR,
}

// vendorError is what the device says of each failure besides.
const vendorError = 0x75

// put writes a completion.
func (q *mlx5CQ) put(d completion) {
	e, wc := &q.entry, &d.wc
	*e = abi.Mlx5Cqe64{}
	e.Timestamp.Put(uint64(q.next) << 10)
	switch {
	case q.version == 1:
		e.SrqnUidx.Put(d.q.sq.(*mlx5SQ).uidx)
	case d.recv && d.q.srq != nil:
		e.SrqnUidx.Put(d.q.srq.num)
	}
	e.SopDropQpn.Put(uint32(d.tag.op)<<24 | d.q.num)
	e.WqeCounter.Put(d.tag.place)
	op := uint8(abi.MLX5_CQE_REQ)
	switch {
	case wc.Status != wcSuccess:
		op = abi.MLX5_CQE_REQ_ERR
		if d.recv {
			op = abi.MLX5_CQE_RESP_ERR
		}
		b := raw(e)
		b[54], b[55] = vendorError, syndromes[wc.Status] // of struct mlx5_err_cqe
	case d.recv:
		op = responseOf(wc)
		e.ByteCnt.Put(wc.ByteLen)
		flags := uint32(wc.Sl&0xf)<<24 | wc.SrcQp
		if wc.WcFlags&abi.IB_WC_GRH != 0 {
			flags |= 1 << 28
		}
		e.FlagsRqpn.Put(flags)
		e.Slid.Put(wc.Slid)
		e.MlPath = wc.DlidPathBits
		switch op {
		case abi.MLX5_CQE_RESP_SEND_INV:
			e.ImmInvalPkey.Put(wc.Ex)
		case abi.MLX5_CQE_RESP_SEND:
			e.ImmInvalPkey.Put(uint32(wc.PkeyIndex))
		default:
			putU32(e.ImmInvalPkey[:], wc.Ex) // as it lay in the request
		}
	case d.tag.op == abi.MLX5_OPCODE_RDMA_READ, d.tag.op == abi.MLX5_OPCODE_ATOMIC_CS, d.tag.op == abi.MLX5_OPCODE_ATOMIC_FA:
		e.ByteCnt.Put(wc.ByteLen)
	}
	q.write(op, d.recv && d.solicited)
}

// write hands the entry over: the last byte of it is there when all is.
func (q *mlx5CQ) write(op uint8, solicited bool) {
	own := op << 4
	if solicited {
		own |= 1 << 1
	}
	if q.next&q.entries != 0 {
		own |= abi.MLX5_CQE_OWNER_MASK
	}
	b := raw(&q.entry)
	off := int(q.next&(q.entries-1))*q.size + q.size - len(b)
	const last = 4 // bytes
	q.next++
	b[len(b)-1] = own
	if q.buf.far != nil {
		q.buf.write(off, b[:len(b)-1])
		q.buf.write(off+len(b)-1, b[len(b)-1:])
		return
	}
	q.buf.write(off, b[:len(b)-last])
	uverbs.RaceSent()
	word.Swap32(q.buf.mem[off+len(b)-last:off+len(b)], u32(b[len(b)-last:]))
}

// rung is a doorbell that asks for an event.
func (q *mlx5CQ) rung(w uint32) {
	if rec := q.rec.be32(4); rec != w && !q.newer(rec, w) {
		q.c.f.broke("completion queue %#x: a doorbell of %#08x, with %#08x in the record", q.num, w, rec)
	}
	q.arm(w)
}

// newer reports whether a record may be that of an arming behind the doorbell's, of which
// the doorbell is not there yet. One of 0 is more likely none, but of another process, which
// goes on while its doorbells are looked for.
func (q *mlx5CQ) newer(rec, bell uint32) bool {
	const half = 1 << 23
	return (rec-bell)&indexMask < half && (rec>>28-bell>>28)&3 < 2 && (rec != 0 || q.rec.far != nil)
}

// arm asks for an event with the next completion behind the consumer's index, or the next
// that is solicited. It does nothing if the program has not taken the last event yet, as
// its number shows, but it will find that.
func (q *mlx5CQ) arm(w uint32) {
	const number = 28
	q.seen, q.known = w, true
	if w&^(3<<number|abi.MLX5_CQ_DB_REQ_NOT_SOL|indexMask) != 0 {
		q.c.f.broke("completion queue %#x: an arming of %#08x", q.num, w)
	}
	behind := (q.next - w) & indexMask
	if behind > q.entries {
		q.c.f.broke("completion queue %#x: an arming at %#x, with the next entry %#x", q.num, w&indexMask, q.next&indexMask)
		return
	}
	switch (q.c.events - w>>number) & 3 {
	case 0:
	case 1:
		return
	default:
		q.c.f.broke("completion queue %#x: an arming with number %d, after %d events", q.num, w>>number&3, q.c.events)
		return
	}
	switch {
	case w&abi.MLX5_CQ_DB_REQ_NOT_SOL != 0:
		q.c.armed = max(q.c.armed, armedSolicited)
	case behind > 0:
		q.c.tell()
	default:
		q.c.armed = armedNext
	}
}

// resize puts what the program finds at the end of the old memory there, and goes on in
// the new. It reports whether there is room for both.
func (q *mlx5CQ) resize(buf piece, entries uint32) bool {
	if used := q.used(); used >= q.entries || used >= entries {
		return false
	}
	q.entry = abi.Mlx5Cqe64{}
	q.write(abi.MLX5_CQE_RESIZE_CQ, false)
	q.buf, q.entries = buf, entries
	return true
}
