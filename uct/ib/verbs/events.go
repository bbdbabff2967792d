//go:build linux

package verbs

import (
	"context"
	"fmt"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// EventType is the kind of an asynchronous event of a device, a port, a queue or a queue pair.
type EventType uint32

// Asynchronous events; enum ib_event_type, ib_verbs.h.
const (
	EventCQErr EventType = iota
	EventQPFatal
	EventQPReqErr
	EventQPAccessErr
	EventCommEst
	EventSQDrained
	EventPathMig
	EventPathMigErr
	EventDeviceFatal
	EventPortActive
	EventPortErr
	EventLIDChange
	EventPKeyChange
	EventSMChange
	EventSRQErr
	EventSRQLimitReached
	EventQPLastWQEReached
	EventClientReregister
	EventGIDChange
	EventWQFatal
	EventDeviceSpeedChange
)

var eventNames = []string{"CQ error", "QP fatal error", "QP request error", "QP access error", "communication established",
	"SQ drained", "path migrated", "path migration failed", "device fatal error", "port active", "port error", "LID change",
	"P_Key change", "SM change", "SRQ error", "SRQ limit reached", "QP last WQE reached", "client reregister", "GID change",
	"WQ fatal error", "device speed change"}

// String describes the event.
func (t EventType) String() string { return name(int(t), eventNames...) }

// AsyncEvent is an asynchronous event. At most one of CQ, QP and SRQ is set: the object that the
// event is about, unless it has been closed since.
type AsyncEvent struct {
	Type EventType
	Port int // port number of a port event, else 0
	CQ   *CQ
	QP   *QP
	SRQ  *SRQ
}

// String describes the event.
func (e AsyncEvent) String() string {
	switch {
	case e.Port != 0:
		return fmt.Sprintf("%v, port %d", e.Type, e.Port)
	case e.QP != nil:
		return fmt.Sprintf("%v, QP %#x", e.Type, uint32(e.QP.qpn))
	}
	return e.Type.String()
}

// GetAsyncEvent waits for the next event of the device; ibv_get_async_event. Events need no
// acknowledgement. It fails with ucs.ErrNoDevice when the device was removed, if the driver can
// remove a device that is in use. rdma_rxe cannot: removing its device waits, without an event,
// until all programs have closed the device.
func (c *Context) GetAsyncEvent(ctx context.Context) (AsyncEvent, error) {
	b := make([]byte, len(abi.Bytes(&abi.AsyncEventDesc{})))
	if err := c.events.read(ctx, b); err != nil {
		return AsyncEvent{}, err
	}
	return c.asyncEvent(b), nil
}

// TryAsyncEvent is GetAsyncEvent without waiting: ok is false if there is no event. It is
// for programs that poll AsyncFD together with other descriptors.
func (c *Context) TryAsyncEvent() (e AsyncEvent, ok bool, err error) {
	b := make([]byte, len(abi.Bytes(&abi.AsyncEventDesc{})))
	if ok, err := c.events.try(b); !ok {
		return AsyncEvent{}, false, err
	}
	return c.asyncEvent(b), true, nil
}

// asyncEvent decodes an event record of the kernel.
func (c *Context) asyncEvent(b []byte) AsyncEvent {
	var d abi.AsyncEventDesc
	copy(abi.Bytes(&d), b)
	e := AsyncEvent{Type: EventType(d.EventType &^ (1 << 31))}
	switch e.Type {
	case EventPortActive, EventPortErr, EventLIDChange, EventPKeyChange, EventSMChange, EventClientReregister,
		EventGIDChange, EventDeviceSpeedChange:
		e.Port = int(d.Element)
	case EventDeviceFatal:
	default:
		switch o := c.object(d.Element).(type) {
		case *CQ:
			e.CQ = o
		case *QP:
			e.QP = o
		case *SRQ:
			e.SRQ = o
		}
	}
	return e
}

// AsyncFD returns the descriptor that becomes readable with an event, -1 once the Context
// is closed. The Context owns it.
func (c *Context) AsyncFD() int { return c.events.number() }
