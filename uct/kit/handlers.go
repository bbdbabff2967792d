package kit

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// Handlers are the message handlers of an iface. Every id always has a handler, so that a
// delivery needs no check: ids without a handler of the user have a handler that drops the
// message. Init must be called first.
type Handlers struct {
	byID       [uct.MaxAMIDs]uct.AMHandler // never nil
	dropLogged bool                        // the drop of a message without handler was logged
	log        *log.Logger
}

// Init initializes the table without user handlers. Dropped messages are logged to l.
func (h *Handlers) Init(l *log.Logger) {
	h.log = l
	for id := range h.byID {
		h.byID[id] = h.drop(uct.AMID(id))
	}
}

// Set implements uct.Iface.SetAMHandler. It may be called inside the handler that it replaces.
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

// Deliver passes a message to its handler. The id must be below uct.MaxAMIDs. The compiler
// inlines Deliver.
func (h *Handlers) Deliver(src *uct.Source, id uct.AMID, data []byte, desc *uct.AMDesc) error {
	return h.byID[id](src, data, desc)
}

// drop returns the handler of an id without a user handler. Peers can send any number of
// messages for the id, so only the first one causes a warning.
func (h *Handlers) drop(id uct.AMID) uct.AMHandler {
	return func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
		const text = "dropped an active message without handler"
		fields := []zap.Field{zap.Uint8("id", uint8(id)), zap.Int("bytes", len(data))}
		if h.dropLogged {
			h.log.Debug(text, fields...)
		} else {
			h.log.WarnOnce("", text, fields...)
		}
		h.dropLogged = true
		return nil
	}
}

// ErrAMID returns the error for an id that is not below uct.MaxAMIDs.
//
//go:noinline
func ErrAMID(id uct.AMID) error {
	return fmt.Errorf("uct: active message id %d, not below %d: %w", id, uct.MaxAMIDs, ucs.ErrInvalidParam)
}
