//go:build linux

package mlx5

import (
	"sync/atomic"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// cq is a completion queue. Its indices run freely: they are not reduced modulo the size of the
// queue. The entry at an index is a completion if its owner bit equals bit round of the index,
// which changes with each pass through the memory, and if its opcode is not MLX5_CQE_INVALID, with
// which the memory is initialized. The lock is needed because queue pairs may be destroyed or reset
// while the queue is polled; see drain.go.
type cq struct {
	lock  spin
	next  uint32 // under lock: index of the next completion
	queue entries
	size  uint32 // entries, a power of two; 0 if there is no memory
	round uint32 // log2 of size
	last  *qp    // under lock: the queue pair of the last completion, nil if unknown
	// under lock: completions of queue pairs that were destroyed or reset, to be polled first
	rescued []provider.WC
	ctx     *context
	rec     record
	taken   atomic.Uint32 // number of events taken from the channel

	request abi.Mlx5CreateCq
	answer  abi.Mlx5CreateCqResp
	mem     []byte
	oldMem  []byte // after a failed Resize: old memory that the device may still write to
}

func (c *context) NewCQ(a *provider.CQInit) (provider.CQ, error) {
	n, err := completions(a.CQE)
	if err != nil {
		return nil, err
	}
	q := &cq{ctx: c}
	mem, err := newCompletions(n)
	if err != nil {
		return nil, err
	}
	q.setMem(mem, n)
	if q.rec, err = c.records.get(); err != nil {
		q.Detach()
		return nil, err
	}
	q.request = abi.Mlx5CreateCq{BufAddr: addressOf(mem), DbAddr: addressOfRecord(q.rec), CqeSize: cqeSize}
	if c.pages.dynamic {
		q.request.Flags, q.request.UarPageIndex = abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, uint16(c.pages.armPage)
	}
	a.CQE = int(n) - 1
	return q, nil
}

// newCompletions maps memory for n entries, all marked as invalid.
func newCompletions(n uint32) ([]byte, error) {
	mem, err := mapQueue(int(n) * cqeSize)
	if err != nil {
		return nil, err
	}
	e := newEntries(mem, n)
	for i := range n {
		e.at(i).OpOwn = abi.MLX5_CQE_INVALID << 4
	}
	return mem, nil
}

// setMem sets the memory of the queue to mem, which has n entries. If mem is nil, the queue has no
// memory.
func (c *cq) setMem(mem []byte, n uint32) {
	c.mem, c.size, c.queue, c.round = mem, 0, entries{}, 0
	if mem != nil {
		c.size, c.queue, c.round = n, newEntries(mem, n), log2(int(n))
	}
}

func (c *cq) Data() (in, out []byte) { return abi.Bytes(&c.request), abi.Bytes(&c.answer) }

func (c *cq) Attach(m *provider.CQMade) error {
	m.CQE = int(c.size) - 1
	return nil
}

func (c *cq) Detach() {
	c.lock.lock()
	mem, lost, rec := c.mem, c.oldMem, c.rec
	c.setMem(nil, 0)
	c.oldMem, c.rec, c.last, c.rescued = nil, nil, nil, nil
	c.lock.unlock()
	unmapQueue(mem)
	unmapQueue(lost)
	if rec != nil {
		c.ctx.records.put(rec)
	}
}

// lastByte returns the byte of word v that has the highest address when v is in memory.
func lastByte(v uint32) uint8 { return uint8(be32(v)) }

// there returns the last byte of the entry at index i, which has the opcode and the owner bit. ok
// reports whether the entry is a completion.
func (c *cq) there(i uint32) (own uint8, ok bool) {
	own = lastByte(c.queue.last(i))
	return own, own>>4 != abi.MLX5_CQE_INVALID && uint32(own)&abi.MLX5_CQE_OWNER_MASK == i>>c.round&1
}

// consumed writes the consumer index, up to which the queue has been read, to the doorbell record.
// The lock is held.
func (c *cq) consumed() { setRecord(c.rec, abi.MLX5_CQ_SET_CI, c.next&0xffffff) }

// Arm requests an event. It writes the consumer index and the number of events taken, by which the
// device recognizes outdated requests, to the doorbell record and then to the doorbell page
// (providers/mlx5/cq.c, mlx5_arm_cq).
func (c *cq) Arm(solicited bool) error {
	c.lock.lock()
	defer c.lock.unlock()
	if c.rec == nil {
		return provider.ErrNoCQ
	}
	v := c.taken.Load()&3<<28 | c.next&0xffffff
	if solicited {
		v |= abi.MLX5_CQ_DB_REQ_NOT_SOL
	}
	setRecord(c.rec, abi.MLX5_CQ_ARM_DB, v)
	flushWrites()
	ring(c.ctx.pages.arm, be64(uint64(v)<<32|uint64(c.answer.Cqn)))
	flushWrites()
	return nil
}

func (c *cq) EventTaken() { c.taken.Add(1) }
