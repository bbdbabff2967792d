//go:build linux

package ib

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// defaultPoll is how many completions are taken at once.
const defaultPoll = 16

// completions is a completion queue as an interface looks at it.
type completions struct {
	cq    *verbs.CQ
	wc    []verbs.WC
	held  int  // of wc, taken by who armed and not yet looked at
	armed bool // an event will come, or is there
}

func (c *completions) open(cq *verbs.CQ, most int) {
	c.cq, c.wc = cq, make([]verbs.WC, max(most, 1))
}

// take returns the next completions, valid until the next call. If they are fewer than
// fit, the queue has been seen empty in this call: what is held was taken earlier, so
// the queue is looked at behind it.
func (c *completions) take() []verbs.WC {
	n := c.held
	c.held = 0
	return c.wc[:n+c.cq.Poll(c.wc[n:])]
}

// arm asks for an event, and says whether completions are there already. Devices tell
// of what comes after the question only, so who asks has to look once more.
func (c *completions) arm() error {
	if c.held > 0 {
		return ucs.ErrBusy
	}
	if !c.armed {
		if err := c.cq.ReqNotify(false); err != nil {
			return err
		}
		c.armed = true
	}
	if c.held = c.cq.Poll(c.wc); c.held > 0 {
		return ucs.ErrBusy
	}
	return nil
}

// Sent returns completions of sends, at most as many as the settings say; if there are
// fewer, the queue has been seen empty. They are valid until the next call.
func (i *Iface) Sent() []verbs.WC { return i.send.take() }

// Received returns completions of receives, likewise. full says that there may be more.
func (i *Iface) Received() (wc []verbs.WC, full bool) {
	wc = i.recv.take()
	return wc, len(wc) == len(i.recv.wc)
}

// Arm prepares for a sleep: nil when the event set of the worker will tell of receives, and
// of sends if those are wanted, ucs.ErrBusy when progress has to be made first. There is
// nothing between all sends and none: not all devices tell of failures alone, see
// verbs.CQ.ReqNotify.
func (i *Iface) Arm(sends bool) error {
	if !i.Failures.Empty() || i.letters.waiting.Load() {
		return ucs.ErrBusy
	}
	if sends {
		if err := i.send.arm(); err != nil {
			return err
		}
	}
	return i.recv.arm()
}

// channelEvents takes the events of the channel. What they are about is found in the
// queues.
type channelEvents struct{ i *Iface }

// HandleEvent implements event.Handler.
func (h channelEvents) HandleEvent(event.Events) {
	i := h.i
	for {
		cq, ok, err := i.channel.TryEvent()
		if !ok || err != nil {
			return
		}
		switch cq {
		case i.SendCQ:
			i.send.armed = false
		case i.RecvCQ:
			i.recv.armed = false
		}
	}
}
