package ucp

import (
	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
)

// Active messages that the application keeps count for the peers that have sent them until
// they are given up, unlike tagged ones that it has asked for: a handler that never gives
// up any must not let peers fill the memory. Where the budget of the process is used up
// that way the connection of who sends more is dropped. Through shared memory, which does
// not tell who sends, messages for handlers are dropped then, until something is given up.

// chargeKept charges a message that is the application's now, unless that is done.
func (m *AMMessage) chargeKept() {
	if m.charged > 0 {
		return
	}
	w, n := m.w, amMessageSize+cap(m.buf)
	if m.desc != nil {
		n += keeps(m.data, m.desc)
	}
	err := w.charge(m.from, n)
	m.charge(n)
	switch {
	case err == nil:
	case m.from.uct != nil:
		m.from.uct.Drop(err)
	default:
		w.am.over = true
	}
}

// overfull reports whether a message cannot be handled, as too much is kept.
func (m *AMMessage) overfull() bool {
	w := m.w
	if m.from.uct != nil {
		return false
	}
	if w.unnamed.payer.reserve(0, w.maxHeld) {
		w.am.over = false
		return false
	}
	if w.refused(m.from, ledger.Memory) {
		w.ctx.log.Warn("active message dropped: the program keeps too many", zap.String("worker", w.name), zap.Int("bytes", w.held()))
	}
	m.refuse(ucs.ErrNoMemory)
	return true
}
