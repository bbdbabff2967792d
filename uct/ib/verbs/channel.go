//go:build linux

package verbs

import (
	"context"
	"sync/atomic"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// CompChannel is a completion channel, from which events of armed completion queues are read. Any
// goroutine may use it; each event goes to one reader.
type CompChannel struct {
	ctx    *Context
	id     uint64
	events *eventFD
	users  atomic.Int32 // number of completion queues that use the channel
}

// CreateCompChannel makes a completion channel; ibv_create_comp_channel.
func (c *Context) CreateCompChannel() (*CompChannel, error) {
	ch := &CompChannel{ctx: c}
	id, err := c.register(ch, phaseBase)
	if err != nil {
		return nil, err
	}
	ch.id = id
	var resp abi.CreateCompChannelResp
	err = c.invoke(abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, abi.Bytes(&abi.CreateCompChannel{}), abi.Bytes(&resp))
	if err == nil {
		ch.events, err = newEventFD(int(resp.Fd), c.Name()+" completions")
	}
	if err != nil {
		c.unregister(ch, ch.id)
		return nil, err
	}
	return ch, nil
}

// GetEvent waits for the event of an armed completion queue and returns the queue, nil if
// it has been closed since; ibv_get_cq_event. Events need no acknowledgement. The queue has
// to be armed again for the next event.
func (ch *CompChannel) GetEvent(ctx context.Context) (*CQ, error) {
	b := make([]byte, len(abi.Bytes(&abi.CompEventDesc{})))
	if err := ch.events.read(ctx, b); err != nil {
		return nil, err
	}
	return ch.handleEvent(b), nil
}

// TryEvent is GetEvent without waiting: ok is false if there is no event. It is for
// programs that poll FD together with other descriptors. It may take an event that a
// waiting GetEvent would have returned.
func (ch *CompChannel) TryEvent() (q *CQ, ok bool, err error) {
	b := make([]byte, len(abi.Bytes(&abi.CompEventDesc{})))
	if ok, err := ch.events.try(b); !ok {
		return nil, false, err
	}
	return ch.handleEvent(b), true, nil
}

// handleEvent handles event record b. It returns the completion queue that the record names, nil if the
// queue is closed, and marks the queue as not armed.
func (ch *CompChannel) handleEvent(b []byte) *CQ {
	var d abi.CompEventDesc
	copy(abi.Bytes(&d), b)
	q, _ := ch.ctx.object(d.CqHandle).(*CQ)
	if q != nil {
		q.drv.EventTaken()
		q.armed.Store(false)
	}
	return q
}

// FD returns the descriptor that becomes readable with an event, -1 once the channel is
// closed. The channel owns it.
func (ch *CompChannel) FD() int { return ch.events.number() }

// Close closes the channel; ibv_destroy_comp_channel. Queues that use it report no more
// events.
func (ch *CompChannel) Close() error {
	ch.ctx.unregister(ch, ch.id)
	return ch.events.close()
}

func (ch *CompChannel) abandon() {}
