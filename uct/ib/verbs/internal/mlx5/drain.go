//go:build linux

package mlx5

import "github.com/ucx-go/ucx/internal/ib/abi"

// drain takes what is of a queue pair out of its completion queues: it was destroyed or
// reset, so nothing more comes, and who polls does not expect what has come. If it is
// gone it is not found any more from then on. The context's mu is held, which keeps
// others from locking two queues in another order (providers/mlx5/verbs.c,
// mlx5_destroy_qp and mlx5_modify_qp).
func (q *qp) drain(gone bool) {
	q.recvCQ.lock.lock()
	if q.sendCQ != q.recvCQ {
		q.sendCQ.lock.lock()
		q.sendCQ.drop(q)
	}
	q.recvCQ.drop(q)
	if gone {
		q.ctx.qps.set(q.number, nil)
	}
	if q.sendCQ != q.recvCQ {
		q.sendCQ.lock.unlock()
	}
	q.recvCQ.lock.unlock()
}

// drop takes the queue pair's completions out of what has not been polled: what is
// kept moves up, older entries onto the places of those that go. The owner bit belongs
// to the place (providers/mlx5/cq.c, __mlx5_cq_clean). The lock is held.
func (c *cq) drop(q *qp) {
	if c.last == q {
		c.last = nil
	}
	end := c.next + c.unread()
	fromDevice()
	gone := uint32(0)
	for i := end; i != c.next; {
		i--
		e := c.queue.at(i)
		if c.number(e) == q.number {
			if q.srq != nil && responder(e.OpOwn>>4) {
				q.srq.take(uint32(e.WqeCounter.Get()))
			}
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
