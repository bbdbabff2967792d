//go:build linux

package provider

import "github.com/ucx-go/ucx/uct/ib/internal/abi"

// Object has the methods that all objects have.
type Object interface {
	// Data returns the driver-specific buffers of the call that creates the object: in is sent to
	// the kernel's driver, and the driver writes its response to out. A buffer is nil if the driver
	// has no such data.
	Data() (in, out []byte)
	// Detach releases the object's resources in this process. It may be called twice.
	Detach()
}

// Context makes the objects of one open device. Its method Data is for the call GET_CONTEXT.
type Context interface {
	Object
	// Attach is called after GET_CONTEXT, and makes the mappings for the whole device.
	Attach() error
	// Lacks returns the reason why the device lacks a feature, "" if it has the feature. It is
	// called once for each feature, after Attach.
	Lacks(Feature) (why string)
	NewCQ(*CQInit) (CQ, error)
	NewSRQ(*SRQInit) (SRQ, error)
	NewQP(*QPInit) (QP, error)
	NewAH(*abi.AhAttr) (AH, error)
}

// CQInit has the parameters of a new completion queue.
type CQInit struct {
	CQE int // capacity, in completions
}

// CQMade describes the completion queue that the kernel has made. Attach may correct CQE.
type CQMade struct {
	Handle uint32
	CQE    int
}

// CQ is the provider's part of a completion queue, which includes its memory.
type CQ interface {
	Object
	Attach(*CQMade) error
	// Poll moves up to len(wc) completions from the queue to wc, and returns their number. It
	// returns 0 after Detach.
	Poll(wc []WC) int
	// Arm requests an event at the next completion, or at the next solicited one.
	Arm(solicited bool) error
	// EventTaken is called when an event of the queue was read from its channel. A device that
	// numbers events sends no further event before this call.
	EventTaken()
	// Resize begins to change the capacity to at least *cqe completions. It may change *cqe to the
	// capacity to request from the kernel. It returns nil if the queue has that capacity already.
	Resize(cqe *int) (Resizing, error)
}

// Resizing is a change of a queue's capacity in progress. The caller ends it with Done or Failed.
type Resizing interface {
	// Data returns the driver-specific buffers of the call that resizes, as in Object.
	Data() (in, out []byte)
	// Done is called after the kernel call, and makes the queue use its new memory, with its
	// contents. *n is the capacity that the kernel reports, which Done may correct. If Done fails,
	// the queue has no memory any more and cannot be used.
	Done(n *int) error
	// Failed is called instead of Done if the kernel call has failed: the queue stays as it was.
	Failed()
}

// SRQInit has the parameters of a new shared receive queue.
type SRQInit struct {
	MaxWR  int
	MaxSGE int
}

// SRQMade describes the shared receive queue that the kernel has made. Attach may correct MaxWR and
// MaxSGE.
type SRQMade struct {
	Handle, Number uint32
	MaxWR          int
	MaxSGE         int
}

// SRQ is the provider's part of a shared receive queue, which includes its memory.
type SRQ interface {
	Object
	Attach(*SRQMade) error
	// PostRecv posts requests in order and returns the number posted; the error is that of the
	// request after these.
	PostRecv(wr []RecvWR) (int, error)
	// LimitData returns the driver-specific request of a MODIFY_SRQ that sets the limit, nil if
	// the driver has none.
	LimitData() []byte
	// Resize begins to change the capacity to at least *maxWR requests. It may change *maxWR to
	// the capacity to request from the kernel.
	Resize(maxWR *int) (Resizing, error)
}

// QPInit has the parameters of a new queue pair.
type QPInit struct {
	Type   QPType
	Cap    QPCap
	SigAll bool
	SendCQ CQ
	RecvCQ CQ
	SRQ    SRQ // nil: the queue pair has its own receive queue
}

// QPMade describes the queue pair that the kernel has made. Attach may correct Cap.
type QPMade struct {
	Handle uint32
	QPN    QPN
	Cap    QPCap
	Sends  []byte // the memory of the send queue; Attach sets it
}

// QP is the provider's part of a queue pair. It includes the memory of the send queue, and of the
// receive queue unless that is shared.
//
// A send request is written in place. Begin takes the next entry of the queue and writes the fixed
// part of the request (WR); Address, Bind, Gather and Inlined add to that entry; Undo takes it
// back. The device does not see the entry before Ring. Package verbs has checked the request: the
// type of the queue pair supports the operation, the number of scatter/gather elements and the
// inline data are within QPMade.Cap, and a datagram has an address. Package verbs itself copies
// inline data into QPMade.Sends.
type QP interface {
	Object
	Attach(*QPMade) error
	// Reset is called when the queue pair was set to RESET: posted requests are discarded, and
	// the device counts its entries from 0. Existing completions can be polled afterwards, as
	// after Detach.
	Reset()

	// Begin takes an entry; ok is false if the queue is full. It keeps neither wr nor list, which
	// may be empty. Inline data can be copied into QPMade.Sends between the offsets from and to.
	//
	// If the caller knows all data of the request, wr.Length is its length in bytes, and wr.Flags
	// has SendInline if the data is inline; its length is then within QPMade.Cap. Inlined is not
	// called for such inline data if it fits between from and to.
	Begin(wr *WR, list []SGE) (from, to int, ok bool)
	// More returns the rest of the space for inline data, as offsets in QPMade.Sends, if the entry
	// wraps around to the beginning of QPMade.Sends; else from and to are equal.
	More() (from, to int)
	// Address writes the destination of a datagram into the entry.
	Address(ah AH, qpn QPN, qkey QKey)
	// Bind writes the parameters of a WRBindMW into the entry. It may return an error.
	Bind(b Bind) error
	// Gather adds a scatter/gather element to the entry.
	Gather(s SGE)
	// Inlined sets the number of bytes of inline data that the caller has copied into the entry.
	// It is not called for an entry without inline data.
	Inlined(n int)
	// Undo takes back the entry that was begun last.
	Undo()
	// Drop takes back all entries that were begun since the last Ring.
	Drop()
	// Ring hands all entries that were begun to the device, and rings its doorbell once. inlined
	// is the number of bytes of inline data in the last entry if Inlined is still to be done for
	// it, else 0. If the doorbell fails, the entries stay handed over.
	Ring(inlined int) error

	// PostRecv posts requests to the receive queue in order and returns the number posted; the
	// error is that of the request after these.
	PostRecv(wr []RecvWR) (int, error)
}

// AH is the provider's part of an address handle.
type AH interface {
	Object
	Attach() error
}
