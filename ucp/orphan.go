package ucp

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/ucs"
)

// orphanTime is how long the rest of a message may take after the end of the
// connection that brought its last fragment. The fragments of one message may
// travel over several connections, which do not end at once.
const orphanTime = time.Second

// orphan is called with the incomplete messages of a connection that is over.
func (w *Worker) orphan(l *assemblyList) {
	if l.head == nil || w.closed {
		return
	}
	until := w.uctw.Now() + orphanTime
	for a := l.head; a != nil; a = l.head {
		a.until = until
		a.moveTo(&w.eager.orphans)
	}
	w.watchOrphans()
}

// watchOrphans sees to it that the oldest orphan is looked at in time: by a
// timer, or where there is no descriptor for one in every round of progress,
// which also tries again to set it.
func (w *Worker) watchOrphans() {
	a := w.eager.orphans.head
	if a == nil {
		w.eager.untimed = false
		return
	}
	wait := a.until - w.uctw.Now()
	var err error
	if w.eager.timer == nil {
		w.eager.timer, err = w.uctw.Timers().After(wait, func() { w.expireOrphans() })
	} else {
		err = w.eager.timer.Reset(wait)
	}
	if err != nil && !w.eager.untimed {
		w.ctx.log.WarnOnce("", "no timer for incomplete messages", zap.String("worker", w.name), zap.Error(err))
	}
	w.eager.untimed = err != nil
}

// expireOrphans ends the messages whose rest has not come, and returns their
// number.
func (w *Worker) expireOrphans() int {
	n := 0
	now := w.uctw.Now()
	for a := w.eager.orphans.head; a != nil && a.until <= now; a = w.eager.orphans.head {
		w.abandon(a)
		n++
	}
	w.watchOrphans()
	return n
}

var errCut = statuserr.Errorf(ucs.ErrConnectionReset, "ucp: the connection broke in the middle of a message")

// abandon ends a message that will never be complete. Why is known of the connection that
// began it.
func (w *Worker) abandon(a *assembly) {
	w.stats.Abandoned++
	err := errCut
	if a.payer.why != nil {
		err = fmt.Errorf("%w: %w", errCut, a.payer.why)
	}
	if a.req == nil {
		w.giveUp(a, err)
		return
	}
	w.forget(a)
	a.end(err)
	w.putAssembly(a)
}
