//go:build linux

package mlx5

import (
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// cq is a completion queue. A completion at an index that runs free is there when its
// owner bit is that of the round, and it is not of the operation that the memory is filled
// with at first. The lock is for queue pairs that go while it is polled: see drain.go.
type cq struct {
	lock  spin
	next  uint32 // under lock: index of the next completion
	queue entries
	size  uint32 // entries, a power of two; 0 if there is no memory
	round uint32 // log2 of size
	last  *qp    // under lock: the queue pair of the last completion, nil for none
	// under lock: of queue pairs that were destroyed or reset, to be polled first
	rescued []provider.WC
	ctx     *context
	rec     record
	taken   atomic.Uint32 // events

	request abi.Mlx5CreateCq
	answer  abi.Mlx5CreateCqResp
	mem     []byte
	lost    []byte // memory that the device may still write to
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
	q.use(mem, n)
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

// newCompletions maps memory for n completions that are not there.
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

// use takes memory of n entries, none if mem is nil.
func (c *cq) use(mem []byte, n uint32) {
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
	mem, lost, rec := c.mem, c.lost, c.rec
	c.use(nil, 0)
	c.lost, c.rec, c.last, c.rescued = nil, nil, nil, nil
	c.lock.unlock()
	unmapQueue(mem)
	unmapQueue(lost)
	if rec != nil {
		c.ctx.records.put(rec)
	}
}

// lastByte is that of a word as it lies in memory.
func lastByte(v uint32) uint8 { return uint8(be32(v)) }

// there returns the last byte of the completion at an index, which has its operation,
// and whether there is one.
func (c *cq) there(i uint32) (own uint8, ok bool) {
	own = lastByte(c.queue.last(i))
	return own, own>>4 != abi.MLX5_CQE_INVALID && uint32(own)&abi.MLX5_CQE_OWNER_MASK == i>>c.round&1
}

// consumed tells the device how far the queue has been read. The lock is held.
func (c *cq) consumed() { setRecord(c.rec, abi.MLX5_CQ_SET_CI, c.next&0xffffff) }

// Arm is a record and a store to the doorbell page: the number of events that were
// taken, which the device compares, and how far the queue has been read
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
