package kit

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// Handlers are the message handlers of an iface. There is one for each id, always,
// so that a delivery looks at nothing but its place: ids without a handler of the
// user's have one that drops the message. Init must come first.
type Handlers struct {
	byID    [uct.MaxAMIDs]uct.AMHandler // never nil
	unheard bool                        // a message without handler was logged
	log     *log.Logger
}

// Init makes the table of an iface that nobody has set a handler of, and that logs to l.
func (h *Handlers) Init(l *log.Logger) {
	h.log = l
	for id := range h.byID {
		h.byID[id] = h.drop(uct.AMID(id))
	}
}

// Set is uct.Iface.SetAMHandler. It may be called inside a handler, which goes on
// serving the message it was called for.
func (h *Handlers) Set(id uct.AMID, fn uct.AMHandler) error {
	if id >= uct.MaxAMIDs {
		return ErrAMID(id)
	}
	if fn == nil {
		fn = h.drop(id)
	}
	h.byID[id] = fn
	return nil
}

// Deliver hands a message to its handler. The id must be below uct.MaxAMIDs. It is
// inlined.
func (h *Handlers) Deliver(src *uct.Source, id uct.AMID, data []byte, desc *uct.AMDesc) error {
	return h.byID[id](src, data, desc)
}

// drop is the handler of an id that has none. Peers can send any number of such
// messages, and are heard once.
func (h *Handlers) drop(id uct.AMID) uct.AMHandler {
	return func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
		const text = "dropped an active message without handler"
		fields := []zap.Field{zap.Uint8("id", uint8(id)), zap.Int("bytes", len(data))}
		if h.unheard {
			h.log.Debug(text, fields...)
		} else {
			h.log.WarnOnce("", text, fields...)
		}
		h.unheard = true
		return nil
	}
}

// ErrAMID says that there is no such id.
//
//go:noinline
func ErrAMID(id uct.AMID) error {
	return fmt.Errorf("uct: active message id %d, not below %d: %w", id, uct.MaxAMIDs, ucs.ErrInvalidParam)
}
