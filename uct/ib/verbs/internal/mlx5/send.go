//go:build linux

package mlx5

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// sendQueue is the send queue of a queue pair. An entry has one or more blocks of 64 bytes. Indices
// count blocks and run freely, and a mask reduces them to the size of the queue, so an entry may
// wrap around its end. The entry that was begun last is open, which means that its length may grow.
// All fields but done belong to the goroutine that posts sends.
type sendQueue struct {
	queue  segments
	size   uint32 // bytes
	blocks []sent // posted entries, by the position of their first block

	post uint32 // index of the open entry, or of the next one if none is open
	len  uint32 // length of the open entry in units of 16 bytes, 0 if there is none
	off  uint32 // offset of the open or last entry in the queue, in bytes
	prev uint32 // offset of the entry before that
	head uint32 // number of entries begun
	seen uint32 // value of the field done when it was last loaded
	most uint32 // largest number of entries in the queue

	ctrl   uint64 // first word of the open entry, with length 0
	signal uint64 // bits in the second word of every entry
	fence  uint64 // bits in the second word of the next entry, set by a bind or an invalidation
	before uint64 // value of fence before the open entry was begun, for Undo
	inline uint32 // largest number of bytes of inline data in an entry
	qpn    uint32
	av     uint32 // length of the address vector in every entry, in units of 16 bytes
	past   bool   // More has returned the space at the beginning of the queue for the open entry

	rung      uint32 // values of post, head and fence at the last doorbell
	rungHead  uint32
	rungFence uint64

	rec  record
	reg  *register
	half uint32 // half of the register for the next doorbell

	_    [64]byte
	done uint32 // number of entries completed; written by the goroutine that polls
}

// sent describes a posted entry of a send queue.
type sent struct {
	id   uint64
	done uint32            // value of sendQueue.done once the entry has completed
	op   provider.WCOpcode // of a bind or an invalidation, which completions do not distinguish
}

// operation describes the entry of an operation.
type operation struct {
	code  uint8
	len   uint8  // units of 16 bytes before the data, without the address vector
	imm   uint32 // mask for WR.Imm: all ones if the operation has it
	peer  bool   // the entry has an address and a key of the peer's memory
	words bool   // the entry has operands of an atomic operation
}

// operations is indexed by provider.WROpcode (providers/mlx5/qp.c, mlx5_ib_opcode).
var operations = [16]operation{
	provider.WRRDMAWrite:         {code: abi.MLX5_OPCODE_RDMA_WRITE, len: 2, peer: true},
	provider.WRRDMAWriteWithImm:  {code: abi.MLX5_OPCODE_RDMA_WRITE_IMM, len: 2, peer: true, imm: ^uint32(0)},
	provider.WRSend:              {code: abi.MLX5_OPCODE_SEND, len: 1},
	provider.WRSendWithImm:       {code: abi.MLX5_OPCODE_SEND_IMM, len: 1, imm: ^uint32(0)},
	provider.WRRDMARead:          {code: abi.MLX5_OPCODE_RDMA_READ, len: 2, peer: true},
	provider.WRAtomicCmpAndSwp:   {code: abi.MLX5_OPCODE_ATOMIC_CS, len: 3, peer: true, words: true},
	provider.WRAtomicFetchAndAdd: {code: abi.MLX5_OPCODE_ATOMIC_FA, len: 3, peer: true, words: true},
	provider.WRLocalInv:          {code: abi.MLX5_OPCODE_UMR, len: 1, imm: ^uint32(0)},
	provider.WRBindMW:            {code: abi.MLX5_OPCODE_UMR, len: 1},
	provider.WRSendWithInv:       {code: abi.MLX5_OPCODE_SEND_INVAL, len: 1, imm: ^uint32(0)},
}

// Bits of the second word of an entry. The upper half of the word is signature and flags, the lower
// half immediate data.
const (
	completes  = abi.MLX5_WQE_CTRL_CQ_UPDATE << 32
	solicits   = abi.MLX5_WQE_CTRL_SOLICITED << 32
	waits      = abi.MLX5_WQE_CTRL_FENCE << 32
	waitsSmall = abi.MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE << 32
)

func (q *sendQueue) init(p *qp, a *provider.QPInit) {
	l := &p.layout
	q.most, q.inline, q.size = l.posts, uint32(l.inline), uint32(l.sendBytes())
	q.blocks = make([]sent, l.blocks)
	if l.blocks > 0 {
		q.queue = newSegments(p.mem[l.recvBytes():], l.sendBytes())
	}
	if a.SigAll {
		q.signal = completes
	}
	if a.Type == provider.UD {
		q.av = avSize / unit
	}
}

func (q *sendQueue) detach() { q.most, q.queue, q.reg = 0, segments{}, nil }

func (q *sendQueue) reset() {
	q.post, q.len, q.head, q.seen, q.fence = 0, 0, 0, 0, 0
	q.rung, q.rungHead, q.rungFence, q.done = 0, 0, 0, 0
	clear(q.blocks)
}

// Begin writes an entry that is complete if nothing is added to it.
func (q *sendQueue) Begin(wr *provider.WR, list []provider.SGE) (from, to int, ok bool) {
	if q.head-q.seen >= q.most && !q.reloadDone() {
		return 0, 0, false
	}
	op := &operations[wr.Opcode&15]
	post := q.post + (q.len+3)/4
	index := post & (q.size/blockSize - 1)
	b := &q.blocks[index]
	q.head++
	b.id, b.done = wr.ID, q.head
	off := index * blockSize
	n := uint32(op.len) + q.av
	if op.peer {
		s := q.queue.at(off + unit)
		binary.BigEndian.PutUint64(s[:8], wr.RemoteAddr)
		binary.BigEndian.PutUint64(s[8:], uint64(wr.RKey)<<32)
		if op.words {
			q.operands(wr, off)
		}
	}
	data := off + n*unit
	for i := range list {
		if list[i].Length != 0 {
			putData(q.queue.at(off+n*unit), &list[i])
			n++
		}
	}
	if wr.Flags&provider.SendInline != 0 {
		binary.BigEndian.PutUint32(q.queue.at(data)[:4], abi.MLX5_INLINE_SEG|wr.Length)
		n += (inlineHeader + wr.Length + unit - 1) / unit
	}
	flags := q.signal | uint64(wr.Flags&provider.SendSignaled)<<34 | uint64(wr.Flags&provider.SendSolicited)<<31
	if wr.Flags&provider.SendFence != 0 {
		flags |= waits
	} else {
		flags |= q.fence
	}
	q.before, q.fence = q.fence, 0
	q.post, q.prev, q.off, q.len, q.past = post, q.off, off, n, false
	q.ctrl = uint64(post&0xffff)<<40 | uint64(op.code)<<32 | uint64(q.qpn)<<8
	s := q.queue.at(off)
	binary.BigEndian.PutUint64(s[:8], q.ctrl|uint64(n))
	binary.BigEndian.PutUint64(s[8:], flags|uint64(wr.Imm&op.imm))
	if op.code == abi.MLX5_OPCODE_UMR {
		q.window(wr.Opcode, b)
	}
	at := data&(q.size-1) + inlineHeader
	return int(at), int(min(at+q.inline, q.size)), true
}

// reloadDone loads the number of completed entries again, and reports whether the queue has space for
// another entry.
func (q *sendQueue) reloadDone() bool {
	q.seen = atomic.LoadUint32(&q.done)
	return q.head-q.seen < q.most
}

// operands writes the operands of an atomic operation.
func (q *sendQueue) operands(wr *provider.WR, off uint32) {
	s := q.queue.at(off + 2*unit)
	first, second := wr.CompareAdd, uint64(0)
	if wr.Opcode == provider.WRAtomicCmpAndSwp {
		first, second = wr.Swap, wr.CompareAdd
	}
	binary.BigEndian.PutUint64(s[:8], first)
	binary.BigEndian.PutUint64(s[8:], second)
}

func putData(s *[16]byte, p *provider.SGE) {
	binary.BigEndian.PutUint64(s[:8], uint64(p.Length)<<32|uint64(p.LKey))
	binary.BigEndian.PutUint64(s[8:], p.Addr)
}

// setLen sets the length of the open entry to n units of 16 bytes.
func (q *sendQueue) setLen(n uint32) {
	q.len = n
	binary.BigEndian.PutUint64(q.queue.at(q.off)[:8], q.ctrl|uint64(n))
}

// More returns the rest of the space for inline data, if the space wraps around the end of the
// queue.
func (q *sendQueue) More() (from, to int) {
	end := (q.off+q.dataAt())&(q.size-1) + inlineHeader + q.inline
	if q.past || end <= q.size {
		return 0, 0
	}
	q.past = true
	return 0, int(end - q.size)
}

// dataAt returns the offset of the data in the open entry, in bytes.
func (q *sendQueue) dataAt() uint32 {
	code := q.ctrl >> 32 & 0xff
	if code == abi.MLX5_OPCODE_RDMA_WRITE || code == abi.MLX5_OPCODE_RDMA_WRITE_IMM {
		return (2 + q.av) * unit
	}
	return (1 + q.av) * unit
}

func (q *sendQueue) Address(a provider.AH, qpn provider.QPN, qkey provider.QKey) {
	a.(*ah).put(q.queue.av(q.off), q.qpn, uint32(qpn), uint32(qkey))
}

func (q *sendQueue) Gather(s provider.SGE) {
	if s.Length != 0 { // the device takes 0 for 2 GiB
		putData(q.queue.at(q.off+q.len*unit), &s)
		q.setLen(q.len + 1)
	}
}

func (q *sendQueue) Inlined(n int) {
	at := q.dataAt()
	binary.BigEndian.PutUint32(q.queue.at(q.off + at)[:4], abi.MLX5_INLINE_SEG|uint32(n))
	q.setLen((at + inlineHeader + uint32(n) + unit - 1) / unit)
}

func (q *sendQueue) Undo() {
	q.head--
	q.off, q.len, q.fence = q.prev, 0, q.before
}

func (q *sendQueue) Drop() {
	q.post, q.len, q.head, q.fence = q.rung, 0, q.rungHead, q.rungFence
}

// Ring makes the entries visible to the device before the doorbell record, and the record before
// the doorbell. It flushes the doorbell out of this CPU before it returns
// (providers/mlx5/qp.c, post_send_db). The doorbell is the first word of the last entry.
func (q *sendQueue) Ring(inlined int) error {
	if inlined != 0 {
		q.Inlined(inlined)
	}
	n := q.len
	q.post += (n + 3) / 4
	q.len = 0
	if q.head == q.rungHead {
		return nil
	}
	uverbs.RaceSent()
	toDevice()
	setRecord(q.rec, abi.MLX5_SND_DBR, q.post&0xffff)
	flushWrites()
	r := q.reg
	if len(r.flame[0]) != 0 {
		q.ringBlueFlame(r, n)
	} else {
		ring(r.bells[q.half&1], *q.queue.word(q.off))
		flushWrites()
		q.half ^= 1
	}
	q.rung, q.rungHead, q.rungFence = q.post, q.head, q.fence
	return nil
}

// ringBlueFlame rings the doorbell by a BlueFlame register. If there is only one new entry, if it has more
// than a control segment, and if it fits, flame writes the whole entry into the register; else it
// writes a normal doorbell. n is the length of the last entry in units of 16 bytes. Other queue
// pairs may share the register.
func (q *sendQueue) ringBlueFlame(r *register, n uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	half := r.half
	r.half ^= 1
	to, blocks := r.flame[half&1], (n+3)/4
	if q.head-q.rungHead != 1 || n < 2 || int(blocks) > len(to) {
		ring(r.bells[half&1], *q.queue.word(q.off))
		flushWrites()
		return
	}
	for i := range blocks {
		flame(&to[i], q.queue.words(q.off+i*blockSize))
	}
	flushWrites()
}

// completed removes the completed entry whose index is counter, and all entries before it, from the
// queue. It returns nil if no entry in the queue has that index. The goroutine that polls calls
// completed.
func (q *sendQueue) completed(counter uint32) *sent {
	if len(q.blocks) == 0 {
		return nil
	}
	b := &q.blocks[counter&uint32(len(q.blocks)-1)]
	if n := b.done - q.done; n-1 >= uint32(len(q.blocks)) {
		return nil
	}
	word.StoreRelease32(&q.done, b.done)
	return b
}
