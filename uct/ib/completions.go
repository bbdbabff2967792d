//go:build linux

package ib

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// How many completions are taken at once.
const (
	defaultPoll = 16
	maxPoll     = 4096 // whatever the settings say
)

// completions is a completion queue as an interface looks at it.
type completions struct {
	cq    *verbs.CQ
	wc    []verbs.WC
	held  int  // of wc, taken by who armed and not yet looked at
	armed bool // an event will come, or is there
}

func (c *completions) open(cq *verbs.CQ, most config.Count) {
	c.cq, c.wc = cq, make([]verbs.WC, min(most.Int(defaultPoll), maxPoll))
}

// take returns the next completions, valid until the next call. full says that there may be
// more; otherwise the queue has been seen empty in this call: what is held was taken earlier, so
// the queue is looked at behind it.
func (c *completions) take() (wc []verbs.WC, full bool) {
	n := c.held
	c.held = 0
	n += c.cq.Poll(c.wc[n:])
	return c.wc[:n], n == len(c.wc)
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

// Sent returns completions of sends, at most as many as the settings say, valid until the
// next call. full reports that there may be more; otherwise the queue has been seen empty.
func (i *Iface) Sent() (wc []verbs.WC, full bool) { return i.send.take() }

// Received returns completions of receives, as Sent does for sends.
func (i *Iface) Received() (wc []verbs.WC, full bool) { return i.recv.take() }

// Arm prepares for a sleep. It returns nil if the event set of the worker will report
// receives or sends, as asked for by uct.EventRecv and uct.EventSendComp, and ucs.ErrBusy
// if progress has to be made first. Either all sends are reported or none: not all devices
// can report failures alone, see verbs.CQ.ReqNotify.
func (i *Iface) Arm(events uct.EventFlags) error {
	if !i.Failures.Empty() || i.letters.waiting.Load() {
		return ucs.ErrBusy
	}
	if events&uct.EventSendComp != 0 {
		if err := i.send.arm(); err != nil {
			return err
		}
	}
	if events&uct.EventRecv != 0 {
		return i.recv.arm()
	}
	return nil
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
