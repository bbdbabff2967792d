//go:build linux

package rdmacm

import (
	"fmt"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// EventType is the kind of an Event.
type EventType uint32

// Types of events; enum rdma_cm_event_type, rdma_cma.h.
const (
	EventAddrResolved    EventType = cmabi.RDMA_CM_EVENT_ADDR_RESOLVED
	EventAddrError       EventType = cmabi.RDMA_CM_EVENT_ADDR_ERROR
	EventRouteResolved   EventType = cmabi.RDMA_CM_EVENT_ROUTE_RESOLVED
	EventRouteError      EventType = cmabi.RDMA_CM_EVENT_ROUTE_ERROR
	EventConnectRequest  EventType = cmabi.RDMA_CM_EVENT_CONNECT_REQUEST  // a peer connects: Event.ID is new
	EventConnectResponse EventType = cmabi.RDMA_CM_EVENT_CONNECT_RESPONSE // the peer accepts: ConnectQP, then Establish
	EventConnectError    EventType = cmabi.RDMA_CM_EVENT_CONNECT_ERROR
	EventUnreachable     EventType = cmabi.RDMA_CM_EVENT_UNREACHABLE
	EventRejected        EventType = cmabi.RDMA_CM_EVENT_REJECTED
	EventEstablished     EventType = cmabi.RDMA_CM_EVENT_ESTABLISHED // at the accepting side; with datagrams at the connecting side
	EventDisconnected    EventType = cmabi.RDMA_CM_EVENT_DISCONNECTED
	EventDeviceRemoval   EventType = cmabi.RDMA_CM_EVENT_DEVICE_REMOVAL // close all its objects
	EventMulticastJoin   EventType = cmabi.RDMA_CM_EVENT_MULTICAST_JOIN
	EventMulticastError  EventType = cmabi.RDMA_CM_EVENT_MULTICAST_ERROR
	EventAddrChange      EventType = cmabi.RDMA_CM_EVENT_ADDR_CHANGE
	EventTimewaitExit    EventType = cmabi.RDMA_CM_EVENT_TIMEWAIT_EXIT // the queue pair may connect again
)

var eventNames = []string{"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE",
	"CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL", "MULTICAST_JOIN",
	"MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT"}

// String returns librdmacm's name, without its prefix.
func (t EventType) String() string {
	if t < EventType(len(eventNames)) {
		return eventNames[t]
	}
	return fmt.Sprintf("EVENT_%d", uint32(t))
}

// Event is an event of an ID. It belongs to the reader and needs no acknowledgement.
type Event struct {
	Type      EventType
	ID        *ID        // for EventConnectRequest a new one, for Accept or Reject, and Close
	Listener  *ID        // of EventConnectRequest
	Status    int        // 0, a negative errno, or the reason of EventRejected
	Conn      ConnParam  // the peer's parameters; not with datagrams
	UD        UDParam    // of datagrams: the peer, or with EventMulticastJoin the group
	Multicast *Multicast // of events of multicast
}

// PrivateData returns the private data that the peer has sent with the event.
func (e *Event) PrivateData() []byte {
	if e.UD.PrivateData != nil {
		return e.UD.PrivateData
	}
	return e.Conn.PrivateData
}

// Err returns nil for success, else a *RejectedError or an *EventError.
func (e *Event) Err() error {
	switch e.Type {
	case EventAddrResolved, EventRouteResolved, EventConnectRequest, EventConnectResponse, EventEstablished,
		EventMulticastJoin, EventAddrChange:
		if e.Status == 0 {
			return nil
		}
	case EventRejected:
		if e.Status >= 0 { // a negative status is an errno, of iWARP
			return &RejectedError{Reason: RejectReason(e.Status), PrivateData: e.PrivateData()}
		}
	case EventUnreachable:
		if e.Status > 0 { // of SIDR
			return &RejectedError{SIDR: e.Status, PrivateData: e.PrivateData()}
		}
	}
	err := &EventError{Type: e.Type}
	if e.Status < 0 {
		err.Errno = syscall.Errno(-int64(e.Status))
	}
	return err
}

// event converts the kernel's event. The channel sets the objects.
func event(r *cmabi.EventResp, typ verbs.QPType) *Event {
	e := &Event{Type: EventType(r.Event), Status: int(int32(r.Status))}
	if typ == verbs.UD {
		var p cmabi.UdParam
		copy(cmabi.Bytes(&p), r.Param[:])
		e.UD = udParam(&p)
	} else {
		var p cmabi.ConnParam
		copy(cmabi.Bytes(&p), r.Param[:])
		e.Conn = connParam(&p)
	}
	if e.Type == EventMulticastJoin || e.Type == EventMulticastError {
		e.UD.PrivateData = nil // the kernel puts its own number there
	}
	return e
}
