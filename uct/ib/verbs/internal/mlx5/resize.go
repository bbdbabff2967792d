//go:build linux

package mlx5

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// resizing is a change of a completion queue's memory in progress. The device writes a special
// entry at the end of the completions in the old memory, and continues in the new memory at the
// next index. The unread completions are copied to the new memory, each to its index plus one
// (providers/mlx5/cq.c, mlx5_cq_resize_copy_cqes).
type resizing struct {
	cq      *cq
	mem     []byte
	size    uint32
	request abi.Mlx5ResizeCq
}

func (c *cq) Resize(cqe *int) (provider.Resizing, error) {
	n, err := completions(*cqe)
	if err != nil {
		return nil, err
	}
	c.lock.lock()
	size, unread := c.size, c.unread()
	c.lock.unlock()
	switch {
	case size == 0:
		return nil, provider.ErrNoCQ
	case size == n:
		return nil, nil
	case unread >= n:
		return nil, fmt.Errorf("verbs: %s: resizing a completion queue to %d completions while it holds %d: %w", c.ctx.dev.Name(), *cqe, unread, ucs.ErrInvalidParam)
	}
	r := &resizing{cq: c, size: n}
	if r.mem, err = newCompletions(n); err != nil {
		return nil, err
	}
	r.request = abi.Mlx5ResizeCq{BufAddr: addressOf(r.mem), CqeSize: cqeSize}
	*cqe = int(n) - 1
	return r, nil
}

func (r *resizing) Data() (in, out []byte) { return abi.Bytes(&r.request), nil }

func (r *resizing) Failed() { unmapQueue(r.mem) }

// Done copies the unread completions. If the special entry is missing in the old memory, the index
// at which the device continues is unknown, and so is the memory that it writes to; Done then
// returns an error.
func (r *resizing) Done(n *int) error {
	c := r.cq
	c.lock.lock()
	defer c.lock.unlock()
	to := newEntries(r.mem, r.size)
	i := c.next
	for ; i-c.next < c.size; i++ {
		own, ok := c.there(i)
		if !ok {
			break
		}
		fromDevice()
		if own>>4 == abi.MLX5_CQE_RESIZE_CQ {
			old := c.mem
			c.setMem(r.mem, r.size)
			c.next++
			unmapQueue(old)
			*n = int(r.size) - 1
			return nil
		}
		if i-c.next+1 >= r.size {
			break
		}
		d := to.at(i + 1)
		*d = *c.queue.at(i)
		d.OpOwn = own&^abi.MLX5_CQE_OWNER_MASK | uint8((i+1)/r.size&1)
	}
	unread := i - c.next
	c.oldMem = c.mem
	c.setMem(r.mem, r.size)
	c.size = 0
	return fmt.Errorf("verbs: %s: resizing a completion queue: no end mark after %d completions in the old memory: %w", c.ctx.dev.Name(), unread, ucs.ErrIO)
}
