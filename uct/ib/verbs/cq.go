//go:build linux

package verbs

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// CQ is a completion queue. Only one goroutine at a time may poll it, wait for it or resize
// it.
type CQ struct {
	ctx     *Context
	handle  uint32
	id      uint64
	cqe     int
	channel *CompChannel
	drv     provider.CQ
	armed   atomic.Bool // armed for any completion, and the event was not read yet
}

// CreateCQ makes a completion queue for at least cqe completions; ibv_create_cq. Completions that
// exceed its capacity are lost, and cause an EventCQErr. If channel is nil, the queue can only be
// polled. vector is the number of a completion vector, below NumCompVectors.
func (c *Context) CreateCQ(cqe int, channel *CompChannel, vector int) (*CQ, error) {
	if cqe < 1 || int64(cqe) > 1<<31 {
		return nil, fmt.Errorf("verbs: %s: a queue of %d completions: %w", c.Name(), cqe, ucs.ErrInvalidParam)
	}
	if channel != nil && channel.ctx != c {
		return nil, fmt.Errorf("verbs: %s: a completion queue with a channel of another Context: %w", c.Name(), ucs.ErrInvalidParam)
	}
	init := provider.CQInit{CQE: cqe}
	drv, err := c.drv.NewCQ(&init)
	if err != nil {
		return nil, err
	}
	q := &CQ{ctx: c, channel: channel, drv: drv}
	id, err := c.register(q, phaseUsed)
	if err != nil {
		drv.Detach()
		return nil, err
	}
	q.id = id
	in, out := drv.Data()
	var resp [4]byte
	call := uverbs.NewCall(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE).
		New(abi.UVERBS_ATTR_CREATE_CQ_HANDLE, &q.handle).
		U32(abi.UVERBS_ATTR_CREATE_CQ_CQE, uint32(init.CQE)).
		U64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, q.id).
		U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, uint32(vector)).
		Out(abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, resp[:]).
		FD(abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD, c.events.number()).
		DriverIn(in).DriverOut(out)
	if channel != nil {
		call.FD(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, channel.events.number())
	}
	if err := c.do(call); err != nil {
		drv.Detach()
		c.unregister(q, q.id)
		return nil, queueLimit(err, in)
	}
	if channel != nil {
		channel.users.Add(1)
	}
	made := provider.CQMade{Handle: q.handle, CQE: int(native32(resp[:]))}
	if err := drv.Attach(&made); err != nil {
		q.Close()
		return nil, err
	}
	q.cqe = made.CQE
	return q, nil
}

// CQE returns the number of completions that the queue has room for.
func (q *CQ) CQE() int { return q.cqe }

// Context returns the device of the queue.
func (q *CQ) Context() *Context { return q.ctx }

// Channel returns the completion channel, nil if there is none.
func (q *CQ) Channel() *CompChannel { return q.channel }

// Poll takes up to len(wc) completions out of the queue and returns their number; ibv_poll_cq. It
// makes no system call and does not wait.
func (q *CQ) Poll(wc []WC) int { return q.drv.Poll(wc) }

// ReqNotify requests one event on the channel, at the next completion or, if solicitedOnly is set,
// at the next completion of a message that was sent with SendSolicited; ibv_req_notify_cq.
// Completions that are already in the queue cause no event, so poll once more afterwards. According
// to libibverbs' manual a completion with an error counts as solicited. With rdma_rxe that of a
// failed send does not (rxe_cq_post), so do not rely on it.
func (q *CQ) ReqNotify(solicitedOnly bool) error {
	if err := q.ctx.lacks[provider.FeatureEvents]; err != nil {
		return err
	}
	if solicitedOnly {
		return q.drv.Arm(true)
	}
	// Set before the queue is armed, because the event may be read before Arm returns.
	was := q.armed.Swap(true)
	err := q.drv.Arm(false)
	if err != nil {
		q.armed.Store(was)
	}
	return err
}

// Wait takes up to len(wc) completions out of the queue and returns their number. If there is none,
// it waits for one, or until ctx is done. The queue must be the only one on its channel; for a
// shared channel, read the events with CompChannel.GetEvent.
func (q *CQ) Wait(ctx context.Context, wc []WC) (int, error) {
	if n := q.Poll(wc); n > 0 || len(wc) == 0 {
		return n, nil
	}
	if q.channel == nil || q.channel.users.Load() != 1 {
		return 0, fmt.Errorf("verbs: %s: CQ.Wait needs a completion queue that has a channel and does not share it: %w", q.ctx.Name(), ucs.ErrInvalidParam)
	}
	for {
		if !q.armed.Load() {
			if err := q.ReqNotify(false); err != nil {
				return 0, err
			}
			// A completion between the last Poll and ReqNotify causes no event.
			if n := q.Poll(wc); n > 0 {
				return n, nil
			}
		}
		if _, err := q.channel.GetEvent(ctx); err != nil {
			return 0, err
		}
		if n := q.Poll(wc); n > 0 {
			return n, nil
		}
	}
}

// Resize changes the capacity to at least cqe completions; ibv_resize_cq. It fails if the queue
// holds more completions.
func (q *CQ) Resize(cqe int) error {
	if cqe < 1 || int64(cqe) > 1<<31 {
		return fmt.Errorf("verbs: %s: a queue of %d completions: %w", q.ctx.Name(), cqe, ucs.ErrInvalidParam)
	}
	if err := q.ctx.lacks[provider.FeatureResizeCQ]; err != nil {
		return err
	}
	if q.handle == noHandle {
		return errClosed
	}
	next, err := q.drv.Resize(&cqe)
	if err != nil || next == nil {
		return err
	}
	in, out := next.Data()
	var resp abi.ResizeCqResp
	call := uverbs.Invoke(abi.IB_USER_VERBS_CMD_RESIZE_CQ, abi.Bytes(&abi.ResizeCq{CqHandle: q.handle, Cqe: uint32(cqe)}), abi.Bytes(&resp))
	if err := q.ctx.do(call.DriverIn(in).DriverOut(out)); err != nil {
		next.Failed()
		return queueLimit(err, in)
	}
	q.cqe = int(resp.Cqe)
	return next.Done(&q.cqe)
}

// Close destroys the queue; ibv_destroy_cq. It fails with ucs.ErrBusy while queue pairs use
// it.
func (q *CQ) Close() error {
	var resp abi.DestroyCqResp
	return q.ctx.destroy(q, q.id, &q.handle, func(handle uint32) *uverbs.Call {
		return uverbs.NewCall(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY).
			Destroy(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE, handle).
			Out(abi.UVERBS_ATTR_DESTROY_CQ_RESP, abi.Bytes(&resp))
	})
}

func (q *CQ) abandon() {
	q.drv.Detach()
	if q.channel != nil {
		q.channel.users.Add(-1)
	}
}
