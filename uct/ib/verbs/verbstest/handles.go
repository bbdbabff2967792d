//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// What a file holds for its user: objects by handle, and
// descriptors with records of what has happened. Lock held.

// add gives an object a handle.
func (f *file) add(o any) uint32 {
	h := f.next
	f.next++
	f.objects[h] = o
	return h
}

// find is the object of a handle, if it is a T.
func find[T any](f *file, h uint32) (T, bool) {
	o, ok := f.objects[h].(T)
	return o, ok
}

// event tells the user of something that happened, to an object whose user's handle
// element is, or else.
func (f *file) event(typ uint32, element uint64) {
	if f.events == nil {
		return
	}
	e := abi.AsyncEventDesc{Element: element, EventType: typ}
	if f.events.put(abi.Bytes(&e)) {
		f.told[subject{kindOf(typ), element}]++
	}
}

// subject is what an event was about: an object of a kind, by the user's handle.
type subject struct {
	kind    uint16
	element uint64
}

// kindOf is the kind of object that an event is about, UVERBS_OBJECT_DEVICE for others.
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

// untell takes the events back of an object that goes, and returns how many the user has
// read.
func (f *file) untell(kind uint16, element uint64) uint32 {
	about := subject{kind, element}
	n := f.told[about]
	if n == 0 {
		return 0
	}
	delete(f.told, about)
	return n - f.events.withdraw(func(record []byte) bool {
		e := load[abi.AsyncEventDesc](record)
		return e.Element == element && kindOf(e.EventType) == kind
	})
}
