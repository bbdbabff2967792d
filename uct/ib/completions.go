//go:build linux

package ib

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Limits on the number of completions polled at once.
const (
	defaultPoll = 16
	maxPoll     = 4096 // bound on the setting
)

// completions is an interface's view of a completion queue.
type completions struct {
	cq    *verbs.CQ
	wc    []verbs.WC
	held  int  // completions at the start of wc that arm has polled and take has not returned
	armed bool // an event is requested or pending
}

func (c *completions) open(cq *verbs.CQ, most config.Count) {
	c.cq, c.wc = cq, make([]verbs.WC, min(most.Int(defaultPoll), maxPoll))
}

// take returns the next completions, valid until the next call. The result full is true if there
// may be more; otherwise this call has seen the queue empty. The completions that arm polled
// earlier (the field held) come first, and take polls for more behind them.
func (c *completions) take() (wc []verbs.WC, full bool) {
	n := c.held
	c.held = 0
	n += c.cq.Poll(c.wc[n:])
	return c.wc[:n], n == len(c.wc)
}

// arm requests an event at the next completion. It returns ucs.ErrBusy if completions have
// arrived already. A device reports only completions that arrive after the request, so arm
// polls once more after the request.
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

// Sent returns completions of sends, at most as many as the settings allow, valid until the next
// call. The result full is true if there may be more; otherwise this call has seen the queue empty.
func (i *Iface) Sent() (wc []verbs.WC, full bool) { return i.send.take() }

// Received returns completions of receives, as Sent does for sends.
func (i *Iface) Received() (wc []verbs.WC, full bool) { return i.recv.take() }

// Arm prepares for a sleep. It returns nil if the event set of the worker will report
// receives or sends, as asked for by uct.EventRecv and uct.EventSendComp, and ucs.ErrBusy
// if progress has to be made first. Either all sends are reported or none: not all devices
// can report failures alone, see verbs.CQ.ReqNotify.
func (i *Iface) Arm(events uct.EventFlags) error {
	if !i.Failures.Empty() || i.events.Waiting() {
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

// channelEvents reads the events of the completion channel. An event carries no completions:
// those are polled from the queues.
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
