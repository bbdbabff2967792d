//go:build linux

package verbstest

import (
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// mlx5CQ is a completion queue in a program's memory. Indices are not reduced to the size of the
// queue; the program sees 24 bits of the device's index.
type mlx5CQ struct {
	c       *cq
	num     uint32
	version uint8
	buf     piece
	rec     piece
	entries uint32 // number of entries, a power of two
	size    int    // bytes of an entry
	next    uint32 // index of the next entry to write
	seen    uint32 // the doorbell word of the last arming
	known   bool   // the queue has been armed
	page    *uar
	ended   bool
	wrong   bool // a wrong consumer index has been reported
	entry   abi.Mlx5Cqe64
	freed   func()
}

const indexMask = 1<<24 - 1

// used returns the number of completions that the program has not consumed.
func (q *mlx5CQ) used() uint32 {
	n := (q.next - q.rec.be32(0)) & indexMask
	if n <= q.entries {
		q.wrong = false
		return n
	}
	if !q.wrong {
		q.wrong = true
		q.c.f.broke("completion queue %#x: invalid consumer index %#x in the doorbell record: queue of %d entries, next index %#x", q.num, q.rec.be32(0), q.entries, q.next&indexMask)
	}
	return q.entries
}

func (q *mlx5CQ) full() bool { return q.used() >= q.entries }

func (q *mlx5CQ) end() {
	q.ended = true
	q.freed()
}

// blank reports whether every entry of a queue is marked as invalid. entries is a power of two.
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

// responseOf returns the mlx5 opcode for the completion of a receive.
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

// syndromes maps the status of a failed completion to the syndrome; prov/cq.c,
// mlx5_handle_error_cqe.
var syndromes = map[uint32]uint8{
	wcLocLen: abi.MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, wcLocQPOp: abi.MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR,
	wcLocProt: abi.MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, wcFlush: abi.MLX5_CQE_SYNDROME_WR_FLUSH_ERR,
	wcMWBind: abi.MLX5_CQE_SYNDROME_MW_BIND_ERR, wcRemInvReq: abi.MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR,
	wcRemAccess: abi.MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, wcRetryExc: abi.MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR,
	wcRNRRetryExc: abi.MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR,
}

// vendorError is the vendor syndrome of every failed completion.
const vendorError = 0x75

// put writes a completion to the queue.
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
	e.WqeCounter.Put(d.tag.index)
	op := uint8(abi.MLX5_CQE_REQ)
	switch {
	case wc.Status != wcSuccess:
		op = abi.MLX5_CQE_REQ_ERR
		if d.recv {
			op = abi.MLX5_CQE_RESP_ERR
		}
		b := raw(e)
		b[54], b[55] = vendorError, syndromes[wc.Status] // fields of struct mlx5_err_cqe
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
			putU32(e.ImmInvalPkey[:], wc.Ex) // in the byte order of the request
		}
	case d.tag.op == abi.MLX5_OPCODE_RDMA_READ, d.tag.op == abi.MLX5_OPCODE_ATOMIC_CS, d.tag.op == abi.MLX5_OPCODE_ATOMIC_FA:
		e.ByteCnt.Put(wc.ByteLen)
	}
	q.write(op, d.recv && d.solicited)
}

// write passes q.entry to the program. The last byte, which has the owner bit, is written last.
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
	if q.buf.space != nil {
		q.buf.write(off, b[:len(b)-1])
		q.buf.write(off+len(b)-1, b[len(b)-1:])
		return
	}
	q.buf.write(off, b[:len(b)-last])
	uverbs.RaceSent()
	word.Swap32(q.buf.mem[off+len(b)-last:off+len(b)], u32(b[len(b)-last:]))
}

// rung handles a doorbell that arms the queue; w is its first word.
func (q *mlx5CQ) rung(w uint32) {
	if rec := q.rec.be32(4); rec != w && !q.newer(rec, w) {
		q.c.f.broke("completion queue %#x: doorbell %#08x does not match the record %#08x", q.num, w, rec)
	}
	q.arm(w)
}

// newer reports whether the doorbell record may be that of a later arming than the doorbell,
// because the program stores the record before it rings the doorbell. A record of 0 is taken for
// one that no arming has stored, except in another process, which keeps running while its doorbells
// are polled.
func (q *mlx5CQ) newer(rec, bell uint32) bool {
	const half = 1 << 23
	return (rec-bell)&indexMask < half && (rec>>28-bell>>28)&3 < 2 && (rec != 0 || q.rec.space != nil)
}

// arm arms the queue with the arming word w: the next completion after the consumer index in w, or
// the next solicited one, raises an event. Arming has no effect if the sequence number in w shows
// that the program has not read the last event yet; the program will find that event.
func (q *mlx5CQ) arm(w uint32) {
	const number = 28
	q.seen, q.known = w, true
	if w&^(3<<number|abi.MLX5_CQ_DB_REQ_NOT_SOL|indexMask) != 0 {
		q.c.f.broke("completion queue %#x: invalid bits in the arming word %#08x", q.num, w)
	}
	behind := (q.next - w) & indexMask
	if behind > q.entries {
		q.c.f.broke("completion queue %#x: armed at index %#x, the next index is %#x", q.num, w&indexMask, q.next&indexMask)
		return
	}
	switch (q.c.events - w>>number) & 3 {
	case 0:
	case 1:
		return
	default:
		q.c.f.broke("completion queue %#x: armed with sequence number %d after %d events", q.num, w>>number&3, q.c.events)
		return
	}
	switch {
	case w&abi.MLX5_CQ_DB_REQ_NOT_SOL != 0:
		q.c.armed = max(q.c.armed, armedSolicited)
	case behind > 0:
		q.c.raiseEvent()
	default:
		q.c.armed = armedNext
	}
}

// resize puts a completion that marks the end of the queue into the old memory, and continues in
// the new memory. It reports false if there is no room in one of them.
func (q *mlx5CQ) resize(buf piece, entries uint32) bool {
	if used := q.used(); used >= q.entries || used >= entries {
		return false
	}
	q.entry = abi.Mlx5Cqe64{}
	q.write(abi.MLX5_CQE_RESIZE_CQ, false)
	q.buf, q.entries = buf, entries
	return true
}
