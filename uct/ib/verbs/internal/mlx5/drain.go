//go:build linux

package mlx5

import (
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// drain moves the completions of a queue pair that was destroyed or reset out of its completion
// queues. The device writes no more completions for it, and the caller is about to discard the
// requests, which are needed to read the existing ones. If gone is true, drain also removes the
// queue pair from the context's table. The context's mu is held, so that no other call locks the
// same two completion queues in another order (providers/mlx5/verbs.c, mlx5_destroy_qp and
// mlx5_modify_qp).
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

// rescue moves the unread completions of the queue pair to c.rescued, which is polled first.
// rdma-core discards these completions (providers/mlx5/cq.c, __mlx5_cq_clean), and so loses
// messages that were acknowledged to their senders. The lock is held.
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

// drop removes the completions of queue pair q from the n unread entries. Older entries of other
// queue pairs are moved into the freed slots. The owner bit belongs to the slot and is not moved.
// The lock is held.
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

// unread returns the number of completions that have not been polled. The lock is held.
func (c *cq) unread() (n uint32) {
	for n < c.size {
		if _, ok := c.there(c.next + n); !ok {
			break
		}
		n++
	}
	return n
}
