package ucp

import (
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/uct"
)

// Messages in shared memory do not say who sent them. When a process dies in the
// middle of one in fragments, no connection ends, and which of the incomplete
// messages was its own cannot be told as long as another process is there that may
// have sent them: that one may be slow, or stopped. So what happens by itself is
// only what is certain. As long as there are such messages, the transports are
// asked every UCX_KEEPALIVE_INTERVAL whether a sender may be left, and as soon as one of
// them knows that a process has exited. When none is left, the messages end like those of
// a connection that is over. Until then Worker.Cancel ends their receives.

// watchSenders asks after an interval, if there is a message that needs it.
func (w *Worker) watchSenders() {
	if w.eager.watching || w.unnamed.fragments.head == nil || w.closed {
		return
	}
	interval := time.Duration(w.ctx.settings.KeepaliveInterval)
	if interval <= 0 {
		return
	}
	var err error
	if w.eager.senders == nil {
		w.eager.senders, err = w.uctw.Timers().After(interval, w.lookForSenders)
	} else {
		err = w.eager.senders.Reset(interval)
	}
	if w.eager.watching = err == nil; err != nil { // the next fragment tries again
		w.ctx.log.Debug("no timer for messages of unknown senders", zap.String("worker", w.name), zap.Error(err))
	}
}

// lookForSenders gives up the incomplete messages of unknown senders if there are
// no senders any more.
func (w *Worker) lookForSenders() {
	w.eager.watching = false
	if w.unnamed.fragments.head != nil && !w.hasSenders() {
		w.orphan(&w.unnamed.fragments)
	}
	w.watchSenders()
}

// senderExited is told by a transport that a process has exited that may have sent
// messages. Where no other transport could bring the rest of those that are not complete,
// they end at once.
func (w *Worker) senderExited() {
	l := &w.unnamed.fragments
	if l.head == nil || w.closed || w.hasSenders() {
		return
	}
	if !w.allUnnamed() {
		w.orphan(l)
		return
	}
	for a := l.head; a != nil; a = l.head {
		a.moveTo(nil)
		w.abandon(a)
	}
}

// allUnnamed reports whether no transport tells its senders apart.
func (w *Worker) allUnnamed() bool {
	for _, i := range w.ifaces {
		_, unnamed := i.uct.(uct.SenderFinder)
		if !unnamed && i.attr.Resource.Type != uct.DeviceSelf && i.attr.Flags&messageFlags != 0 {
			return false
		}
	}
	return true
}

// hasSenders reports whether a transport that does not name its senders may have
// some left.
func (w *Worker) hasSenders() bool {
	for _, i := range w.ifaces {
		f, ok := i.uct.(uct.SenderFinder)
		if !ok {
			continue
		}
		some, err := f.FindSenders()
		if err != nil {
			w.ctx.log.Debug("cannot tell whether there are senders", zap.String("worker", w.name),
				zap.String("transport", i.attr.Resource.Transport), zap.Error(err))
		}
		if some || err != nil {
			return true
		}
	}
	return false
}
