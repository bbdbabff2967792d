package ucp

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// AMHandler receives the active messages of an id. It is called once for each message, when
// the message has arrived whole or its data is offered (AMMessage.Offered). Like callbacks,
// it runs inside progress, on the goroutine that progresses the worker, or inside a send to
// the same worker. It may start operations and receive the data; it must neither wait nor
// progress. m is valid until the handler returns, unless the handler calls Keep.
//
// The result applies to data that is still at the sender, if the handler has neither kept
// the message nor received the data: nil ends the sender's request with success, an error
// ends it with the status of the error (ucs.StatusOf). In all other cases the result is
// ignored.
type AMHandler func(m *AMMessage) error

// AMHandlerFlags modify how messages are passed to a handler (enum ucp_am_cb_flags).
type AMHandlerFlags uint32

// Flags of handlers, with C's bit numbers.
const (
	// AMWholeMessage asks for whole messages. Handlers always get whole messages, so it
	// changes nothing.
	AMWholeMessage AMHandlerFlags = 1 << 0

	// AMPersistentData keeps the data in place when a message is kept: the slice that
	// AMMessage.Data has returned stays valid until Release. The data may be memory of the
	// transport, which is gone when the worker is closed.
	AMPersistentData AMHandlerFlags = 1 << 1

	amHandlerFlags = AMWholeMessage | AMPersistentData
)

// AMHandlerParams are the parameters of Worker.SetAMHandler.
type AMHandlerParams struct {
	ID      uint16
	Handler AMHandler // nil removes the handler
	Flags   AMHandlerFlags
}

// MaxAMAlignment is the largest WorkerParams.AMAlignment.
const MaxAMAlignment = 1 << 20

// SetAMHandler sets, replaces or removes the handler of an id, starting with the next
// message. A message for an id without a handler is dropped and counted in
// Stats.AMNoHandler. Its sender sees success, except for a message by rendezvous: that
// request ends with ucs.ErrInvalidParam, as in C.
func (w *Worker) SetAMHandler(p AMHandlerParams) error {
	if w.missing() {
		return errMissing("Worker.SetAMHandler", w == nil)
	}
	w.enter()
	err := w.setAMHandler(&p)
	w.exit()
	return err
}

func (w *Worker) setAMHandler(p *AMHandlerParams) error {
	if !w.am.on {
		return fmt.Errorf("ucp: SetAMHandler needs FeatureAM and an open worker: %w", ucs.ErrInvalidParam)
	}
	if p.Flags&^amHandlerFlags != 0 {
		return fmt.Errorf("ucp: SetAMHandler: unknown flags %#x: %w", uint32(p.Flags&^amHandlerFlags), ucs.ErrInvalidParam)
	}
	w.am.set(p.ID, amEntry{fn: p.Handler, flags: p.Flags})
	return nil
}

// unhandled counts a message for an id that has no handler, and logs it now and then.
//
//go:noinline
func (w *Worker) unhandled(id uint16) {
	w.stats.AMNoHandler++
	if now := w.uctw.Now(); !w.am.warned || now >= w.am.warnAt {
		w.am.warned, w.am.warnAt = true, now+time.Minute
		w.ctx.log.Warn("active message without handler", zap.String("worker", w.name), zap.Uint16("id", id))
	}
}

// handle runs a handler and sees to what it leaves. The error is the transport's
// handler's: whether it keeps the memory.
func (w *Worker) handle(e *amEntry, m *AMMessage) error {
	w.stats.AMRecvs++
	m.hold()
	m.state |= amLive
	m.handled = true
	err := w.callAM(e.fn, m)
	return w.handled(m, err)
}

// handled sees to what a handler has left.
func (w *Worker) handled(m *AMMessage, err error) error {
	m.handled = false
	if m.state&amKept != 0 {
		m.chargeKept()
		if m.desc == nil {
			return nil
		}
		w.am.borrowed.push(m)
		return ucs.InProgress
	}
	m.desc = nil // the transport's again
	m.refuse(refusal(err))
	m.drop()
	return nil
}

// refusal is what the sender of an offer is told.
func refusal(err error) ucs.Status {
	status := ucs.StatusOf(err)
	if status > ucs.OK { // what is under way is no end
		return ucs.ErrInvalidParam
	}
	return status
}

// usable reports whether a message may be kept in the transport's memory.
func (w *Worker) usable(data []byte, desc *uct.AMDesc) bool {
	return desc != nil && desc.Size <= mostWaste*len(data) && w.misaligned(data) == 0
}

// deliver gives a message, whose memory is the caller's unless it is the message's own,
// to its handler or its queue. The error is the transport's handler's.
func (w *Worker) deliver(m *AMMessage, desc *uct.AMDesc) error {
	e := w.am.find(m.id)
	switch {
	case e == nil:
		w.unhandled(m.id)
		m.refuse(ucs.ErrInvalidParam)
		m.drop()
		return nil
	case w.am.over && m.overfull():
		m.drop()
		return nil
	case e.queue != nil:
		return e.queue.take(m)
	case e.flags&AMPersistentData != 0 && m.state&amOffered == 0 && m.buf == nil:
		if w.usable(m.data, desc) {
			m.desc = desc
		} else {
			m.own()
		}
	}
	return w.handle(e, m)
}
