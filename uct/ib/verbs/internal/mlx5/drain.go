//go:build linux

package mlx5

import (
	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// drain takes what is of a queue pair out of its completion queues: it was destroyed or
// reset, so nothing more comes, and what a completion is about is known for the last
// time. If it is gone it is not found any more from then on. The context's mu is held,
// which keeps others from locking two queues in another order (providers/mlx5/verbs.c,
// mlx5_destroy_qp and mlx5_modify_qp).
func (q *qp) drain(gone bool) {
	q.recvCQ.lock.lock()
	if q.sendCQ != q.recvCQ {
		q.sendCQ.lock.lock()
		q.sendCQ.rescue(q)
	}
	q.recvCQ.rescue(q)
	if gone {
		q.ctx.qps.set(q.number, nil)
	}
	if q.sendCQ != q.recvCQ {
		q.sendCQ.lock.unlock()
	}
	q.recvCQ.lock.unlock()
}

// rescue takes the queue pair's completions out of what has not been polled, to be
// polled from elsewhere: rdma-core forgets them (providers/mlx5/cq.c, __mlx5_cq_clean), and
// with them messages that their senders know to have arrived. The lock is held.
func (c *cq) rescue(q *qp) {
	n := c.unread()
	fromDevice()
	for i := range n {
		e := c.queue.at(c.next + i)
		if c.number(e) != q.number {
			continue
		}
		var wc provider.WC
		if c.take(e, e.OpOwn>>4, &wc) {
			c.rescued = append(c.rescued, wc)
		}
	}
	c.last = nil
	c.drop(q, n)
}

// drop takes the queue pair's completions out of the next n: what is kept moves up, older
// entries onto the places of those that go. The owner bit belongs to the place. The lock
// is held.
func (c *cq) drop(q *qp, n uint32) {
	gone := uint32(0)
	for i := c.next + n; i != c.next; {
		i--
		e := c.queue.at(i)
		if c.number(e) == q.number {
			gone++
		} else if gone > 0 {
			to := c.queue.at(i + gone)
			owner := to.OpOwn & abi.MLX5_CQE_OWNER_MASK
			*to = *e
			to.OpOwn = e.OpOwn&^abi.MLX5_CQE_OWNER_MASK | owner
		}
	}
	if gone > 0 {
		c.next += gone
		toDevice()
		c.consumed()
	}
}

// unread counts the completions that are there. The lock is held.
func (c *cq) unread() (n uint32) {
	for n < c.size {
		if _, ok := c.there(c.next + n); !ok {
			break
		}
		n++
	}
	return n
}
