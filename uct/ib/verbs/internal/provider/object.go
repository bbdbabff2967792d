//go:build linux

package provider

import "github.com/ucx-go/ucx/internal/ib/abi"

// Object is what all have in common.
type Object interface {
	// Data is what goes with the call that creates the object, to the kernel's driver
	// and back; nil for nothing.
	Data() (in, out []byte)
	// Detach gives back what the object has here. It may come twice.
	Detach()
}

// Context makes objects for one open device. Data goes with GET_CONTEXT.
type Context interface {
	Object
	// Attach has the kernel's answer: it maps what is for the whole device.
	Attach() error
	// Lacks says why a feature is not to be had, "" if it is. It is asked once, after
	// Attach.
	Lacks(Feature) (why string)
	NewCQ(*CQInit) (CQ, error)
	NewSRQ(*SRQInit) (SRQ, error)
	NewQP(*QPInit) (QP, error)
	NewAH(*abi.AhAttr) (AH, error)
}

// CQInit is what a completion queue is to be.
type CQInit struct {
	CQE int // room for completions
}

// CQMade is what the kernel has made of it.
type CQMade struct {
	Handle uint32
	CQE    int
}

// CQ is the memory of a completion queue.
type CQ interface {
	Object
	Attach(*CQMade) error
	// Poll takes completions out of the queue. After Detach there are none.
	Poll(wc []WC) int
	// Arm asks for an event with the next completion, or the next solicited one.
	Arm(solicited bool) error
	// EventTaken tells that an event of the queue was taken from its channel: devices
	// that number them make no second one before.
	EventTaken()
	// Resize begins to make room for cqe completions, which it may change. It returns
	// nil if there is that room, and nothing to be done.
	Resize(cqe *int) (Resizing, error)
}

// Resizing is a change of size under way. It ends with Done or with Failed.
type Resizing interface {
	// Data goes with the call, either way.
	Data() (in, out []byte)
	// Done comes after the call: what is in the queue goes on in its new memory. n is
	// the room that the kernel says there is, which it may correct. If it fails the
	// queue has no memory.
	Done(n *int) error
	// Failed comes instead if the kernel has refused: the queue stays as it was.
	Failed()
}

// SRQInit is what a shared receive queue is to be.
type SRQInit struct {
	MaxWR  int
	MaxSGE int
}

// SRQMade is what the kernel has made of it.
type SRQMade struct {
	Handle, Number uint32
	MaxWR          int
	MaxSGE         int
}

// SRQ is the memory of a shared receive queue.
type SRQ interface {
	Object
	Attach(*SRQMade) error
	// PostRecv puts requests into the queue and returns how many are in it.
	PostRecv(wr []RecvWR) (int, error)
	// LimitData is what goes with MODIFY_SRQ of the limit; nil for nothing.
	LimitData() []byte
	// Resize begins to make room for maxWR requests, which it may change.
	Resize(maxWR *int) (Resizing, error)
}

// QPInit is what a queue pair is to be.
type QPInit struct {
	Type   QPType
	Cap    QPCap
	SigAll bool
	SendCQ CQ
	RecvCQ CQ
	SRQ    SRQ // nil: it has a receive queue of its own
}

// QPMade is what the kernel has made of it.
type QPMade struct {
	Handle uint32
	QPN    QPN
	Cap    QPCap
	Sends  []byte // Attach sets it: the memory of the send queue
}

// QP is the memory of a queue pair: of its sends, and of its receives unless they are
// shared.
//
// A request to send is written in place. Begin takes the next entry of the queue and
// writes what all requests have; Address, Bind, Gather and Inlined add to that entry;
// Undo takes it back. The device sees nothing of it before Ring. Package verbs has
// checked what it asks for: the type of the queue pair has the operation, the
// number and length of the pieces is within QPMade.Cap, a datagram has an address. It
// copies inline data itself, into QPMade.Sends.
type QP interface {
	Object
	Attach(*QPMade) error
	// Reset tells that the queue pair was set to RESET: what was posted is gone, and
	// the device counts its entries from 0. What has completed is polled after that, as
	// after Detach.
	Reset()

	// Begin takes an entry, or returns false if the queue is full. It keeps neither wr
	// nor list, which may be empty. The entry has room for inline data in QPMade.Sends
	// from the one offset to the other; where entries go on at the beginning of that
	// memory, More is the rest of the room, else from and to are the same. Where all
	// data is known, wr has its length, and SendInline if it is inline data, which
	// QPMade.Cap allows; Inlined is not called then if it fits from from to to.
	Begin(wr *WR, list []SGE) (from, to int, ok bool)
	More() (from, to int)
	// Address is where a datagram goes to.
	Address(ah AH, qpn QPN, qkey QKey)
	// Bind is what a WRBindMW binds. It may refuse.
	Bind(b Bind) error
	// Gather adds a piece of memory.
	Gather(s SGE)
	// Inlined says how much of the room is filled, if anything is.
	Inlined(n int)
	// Undo takes back the entry that was begun last.
	Undo()
	// Drop takes back all that was begun since the last Ring.
	Drop()
	// Ring hands everything begun to the device and tells it, once. inlined is of the
	// last entry, as for Inlined. After an error of the telling, what was handed over
	// stays so.
	Ring(inlined int) error

	// PostRecv puts requests into the receive queue and returns how many are in it.
	PostRecv(wr []RecvWR) (int, error)
}

// AH is what a device needs to know of an address.
type AH interface {
	Object
	Attach() error
}
