//go:build linux

package paper

import (
	"fmt"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// cq is a completion queue.
type cq struct {
	queue
	ctx    *context
	answer [answerSize]byte // its number
	next   uint32           // to be read
	taken  atomic.Uint64    // events
}

// reserved blocks of a completion queue are the device's.
const reserved = 2

func (c *context) NewCQ(a *provider.CQInit) (provider.CQ, error) {
	q, err := newQueue(a.CQE + reserved)
	if err != nil {
		return nil, err
	}
	a.CQE = int(q.n) - 1
	return &cq{queue: q, ctx: c}, nil
}

func (c *cq) Data() (in, out []byte) { return c.name(nil), c.answer[:] }
func (c *cq) Detach()                { c.free() }

// Attach says how much room there is: the kernel does not know what is reserved.
func (c *cq) Attach(m *provider.CQMade) error {
	m.CQE = int(c.n) - reserved
	return nil
}

// Poll leaves out what is of queue pairs that are gone.
func (c *cq) Poll(wc []provider.WC) int {
	n := 0
	for n < len(wc) && c.mem != nil {
		b := c.at(c.next)
		if b[block-1] != owner(&c.queue, c.next) {
			break
		}
		c.next++
		getWC(b, &wc[n])
		if _, alive := c.ctx.qps.Load(wc[n].QPN); alive {
			n++
		}
		c.setProgram(c.next)
	}
	return n
}

func (c *cq) Arm(solicited bool) error {
	v := uint64(rungBell | armNext)
	if solicited {
		v = rungBell | armMarked
	}
	cqn := order.Uint32(c.answer[:])
	order.PutUint64(cqBell(c.ctx.page, cqn), v|c.taken.Load()<<32&armSeq|uint64(cqn))
	return nil
}

func (c *cq) EventTaken() { c.taken.Add(1) }

// Resize makes another queue, which begins with what was not read of this one.
func (c *cq) Resize(cqe *int) (provider.Resizing, error) {
	unread := c.unread()
	if *cqe < len(unread) {
		return nil, fmt.Errorf("verbs: %s: room for %d completions, with %d there: %w", c.ctx.dev.Name(), *cqe, len(unread), ucs.ErrInvalidParam)
	}
	q, err := newQueue(*cqe + reserved)
	if err != nil {
		return nil, err
	}
	*cqe = int(q.n) - 1
	return &resizing{cq: c, to: q, unread: unread}, nil
}

// unread are the blocks of completions that are there.
func (c *cq) unread() (list [][]byte) {
	for i := c.next; c.mem != nil && c.at(i)[block-1] == owner(&c.queue, i); i++ {
		list = append(list, c.at(i))
	}
	return list
}

type resizing struct {
	cq     *cq
	to     queue
	unread [][]byte
}

func (r *resizing) Data() (in, out []byte) {
	return order.AppendUint32(r.to.name(nil), uint32(len(r.unread))), r.cq.answer[:]
}

func (r *resizing) Done(n *int) error {
	*n = int(r.to.n) - reserved
	for i, b := range r.unread {
		copy(r.to.at(uint32(i)), b)
		r.to.at(uint32(i))[block-1] = owner(&r.to, uint32(i))
	}
	r.cq.free()
	r.cq.queue, r.cq.next = r.to, 0
	return nil
}

func (r *resizing) Failed() { r.to.free() }
