//go:build linux

package mlx5

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// sendQueue is the send queue of a queue pair. An entry has one or more blocks of 64
// bytes, which are counted by indices that run free; a mask wraps it around the end.
// The entry that was begun last is open: its length may grow. All is of who posts sends,
// but for done.
type sendQueue struct {
	queue  segments
	size   uint32 // bytes
	blocks []sent // what was posted, by the first block

	post uint32 // index of the open entry, or of the next one
	len  uint32 // of the open entry in units of 16 bytes, 0 if there is none
	off  uint32 // of the open or last entry in the queue, in bytes
	prev uint32 // of the one before it
	head uint32 // entries that were begun
	seen uint32 // of done, when it was last looked at
	most uint32 // entries there may be

	ctrl   uint64 // the first word of the open entry, with the length 0
	signal uint64 // bits of every entry's second word
	fence  uint64 // of the next entry's: the last one was a bind or an invalidation
	before uint64 // of the open entry's
	inline uint32 // bytes in an entry
	qpn    uint32
	av     uint32 // units of an address in every entry
	past   bool   // the room at the beginning of the queue was asked for

	rung      uint32 // post, head and fence at the last bell
	rungHead  uint32
	rungFence uint64

	rec  record
	reg  *register
	half uint32 // of the register, which is next

	_    [64]byte
	done uint32 // entries that have completed; of who polls
}

// sent is what is known of an entry.
type sent struct {
	id   uint64
	done uint32            // entries that have completed when it has
	op   provider.WCOpcode // of a bind or an invalidation, which the device calls alike
}

// operation is how a request is written.
type operation struct {
	code  uint8
	len   uint8  // units in front of data, without an address
	imm   uint32 // mask of what it has of WR.Imm
	peer  bool   // it has an address and a key of the peer's memory
	words bool   // and operands
}

// operations by provider.WROpcode (providers/mlx5/qp.c, mlx5_ib_opcode).
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

// Bits of the second word of an entry, whose upper half is signature and flags, its
// lower one immediate data.
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

// Begin writes the entry as if nothing were added to it.
func (q *sendQueue) Begin(wr *provider.WR, list []provider.SGE) (from, to int, ok bool) {
	if q.head-q.seen >= q.most && !q.look() {
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

// look reports whether there is room, now that done is looked at.
func (q *sendQueue) look() bool {
	q.seen = atomic.LoadUint32(&q.done)
	return q.head-q.seen < q.most
}

// operands are those of an atomic operation.
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

// setLen says how long the open entry is.
func (q *sendQueue) setLen(n uint32) {
	q.len = n
	binary.BigEndian.PutUint64(q.queue.at(q.off)[:8], q.ctrl|uint64(n))
}

// More is the rest of the room where it wraps around the end.
func (q *sendQueue) More() (from, to int) {
	end := (q.off+q.dataAt())&(q.size-1) + inlineHeader + q.inline
	if q.past || end <= q.size {
		return 0, 0
	}
	q.past = true
	return 0, int(end - q.size)
}

// dataAt is where data begins in the open entry, in bytes.
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
	if s.Length != 0 { // which stands for 2 GiB
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

// Ring has the entries in memory before the record, the record before the bell, and
// the bell out of this processor before anything that follows (providers/mlx5/qp.c,
// post_send_db). The bell is the beginning of the last entry.
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
		q.flame(r, n)
	} else {
		ring(r.bells[q.half&1], *q.queue.word(q.off))
		flushWrites()
		q.half ^= 1
	}
	q.rung, q.rungHead, q.rungFence = q.post, q.head, q.fence
	return nil
}

// flame rings on a register that takes entries, too: a single one that has more than
// its control segment, and fits. Others may share the register.
func (q *sendQueue) flame(r *register, n uint32) {
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

// completed takes an entry that has completed and all before it out of the queue. A
// completion that is not about an entry which is there has no entry. It is for who
// polls.
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
