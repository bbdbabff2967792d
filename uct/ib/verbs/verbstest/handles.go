//go:build linux

package verbstest

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// The objects of a file by handle, and the events about them. The caller holds Fabric.mu.

// add stores an object under a new handle and returns the handle.
func (f *file) add(o any) uint32 {
	h := f.next
	f.next++
	f.objects[h] = o
	return h
}

// find returns the object of a handle, if it is a T.
func find[T any](f *file, h uint32) (T, bool) {
	o, ok := f.objects[h].(T)
	return o, ok
}

// event sends an asynchronous event to the user. The parameter element is the user's handle of the
// object that the event is about, or the port number.
func (f *file) event(typ uint32, element uint64) {
	if f.events == nil {
		return
	}
	e := abi.AsyncEventDesc{Element: element, EventType: typ}
	if f.events.put(abi.Bytes(&e)) {
		f.eventsSent[subject{kindOf(typ), element}]++
	}
}

// subject is the object that an event is about: its kind and the user's handle.
type subject struct {
	kind    uint16
	element uint64
}

// kindOf returns the kind of object that a type of event is about, UVERBS_OBJECT_DEVICE for events
// of ports and devices.
func kindOf(event uint32) uint16 {
	switch event {
	case eventCQErr:
		return abi.UVERBS_OBJECT_CQ
	case eventQPReqErr, eventQPAccessErr, eventSQDrained, eventLastWQE:
		return abi.UVERBS_OBJECT_QP
	case eventSRQLimit:
		return abi.UVERBS_OBJECT_SRQ
	}
	return abi.UVERBS_OBJECT_DEVICE
}

// withdrawEvents withdraws the unread events of an object that is destroyed, and returns how many the user
// has read.
func (f *file) withdrawEvents(kind uint16, element uint64) uint32 {
	about := subject{kind, element}
	n := f.eventsSent[about]
	if n == 0 {
		return 0
	}
	delete(f.eventsSent, about)
	return n - f.events.withdraw(func(record []byte) bool {
		e := load[abi.AsyncEventDesc](record)
		return e.Element == element && kindOf(e.EventType) == kind
	})
}

// Asynchronous events; enum ib_event_type, ib_verbs.h.
const (
	eventCQErr       = 0
	eventQPReqErr    = 2
	eventQPAccessErr = 3
	eventSQDrained   = 5
	eventDeviceFatal = 8
	eventPortActive  = 9
	eventPortErr     = 10
	eventSRQLimit    = 15
	eventLastWQE     = 16
	eventGIDChange   = 18
)

// Statuses of completions; enum ib_wc_status, ib_verbs.h.
const (
	wcSuccess     = 0
	wcLocLen      = 1
	wcLocQPOp     = 2
	wcLocProt     = 4
	wcFlush       = 5
	wcMWBind      = 6
	wcRemInvReq   = 9
	wcRemAccess   = 10
	wcRetryExc    = 12
	wcRNRRetryExc = 13

	wait  = ^uint32(0)     // not a status: the request is tried again later
	again = ^uint32(0) - 1 // not a status: the request is tried again at once
)

// Flags of a completion queue; enum ib_uverbs_ex_create_cq_flags,
// ib_user_ioctl_verbs.h.
const (
	cqTimestamps    = 1 << 0
	cqIgnoreOverrun = 1 << 1
)

// States of a queue pair; enum ib_qp_state, ib_verbs.h.
const (
	stateReset = iota
	stateInit
	stateRTR
	stateRTS
	stateSQD
	stateSQE
	stateErr
)

func u32(b []byte) uint32       { return binary.NativeEndian.Uint32(b) }
func u64(b []byte) uint64       { return binary.NativeEndian.Uint64(b) }
func putU32(b []byte, v uint32) { binary.NativeEndian.PutUint32(b, v) }
func putU64(b []byte, v uint64) { binary.NativeEndian.PutUint64(b, v) }

// bigEndian returns the number whose bytes in memory are v in big-endian order.
func bigEndian(v uint64) uint64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return u64(b[:])
}
