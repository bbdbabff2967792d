//go:build linux

package rc

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/uct"
)

// op is the record of what a work request holds until it completes: a buffer, or a completion
// to notify. The records of an endpoint form a list, in the order in which the requests were
// posted. A request that holds nothing has no record.
type op struct {
	next   *op
	count  uint32 // the endpoint's done count at which the request is complete
	n      int    // bytes that are read into the buffer
	reads  int    // bytes that it adds to iface.reading
	slot   int32  // the buffer's number
	where  pool   // the buffer's pool
	comp   *uct.Completion
	marker bool         // the request only confirms those before it; its failure is no error for comp
	unpack uct.Unpacker // gets what was read into the buffer
	word   *uint64      // gets the result of an atomic
}

// pool is the pool of a buffer.
type pool uint8

const (
	noPool  pool = iota
	bufPool      // buffers for copied data
	hdrPool      // buffers for headers, and for results of atomics
)

// outstanding returns how many requests the device may still be working on.
func (e *endpoint) outstanding() uint32 { return e.posted - e.done }

// awaits reports whether request number count of the endpoint is in flight.
func (e *endpoint) awaits(count uint32) bool { return int32(count-e.done) > 0 }

// opQueue is the list of records of one endpoint.
type opQueue struct{ head, tail *op }

// newOp takes a record from the free list.
func (i *iface) newOp() *op {
	o := i.freeOps
	if o == nil {
		return i.moreOps()
	}
	i.freeOps, o.next = o.next, nil
	return o
}

// opChunk is how many records are allocated at once.
const opChunk = 64

//go:noinline
func (i *iface) moreOps() *op {
	list := make([]op, opChunk)
	for k := range list[1:] {
		list[k+1].next, i.freeOps = i.freeOps, &list[k+1]
	}
	return &list[0]
}

// hold appends a record for the request that was posted last.
func (e *endpoint) hold(where pool, slot int32, c *uct.Completion) *op {
	o := e.iface.newOp()
	o.count, o.where, o.slot, o.comp = e.posted, where, slot, c
	if e.ops.tail == nil {
		e.ops.head = o
	} else {
		e.ops.tail.next = o
	}
	e.ops.tail = o
	return o
}

// pop removes the first record from the list.
func (e *endpoint) pop() op {
	o := e.ops.head
	e.ops.head = o.next
	if e.ops.head == nil {
		e.ops.tail = nil
	}
	x := *o
	*o = op{next: e.iface.freeOps}
	e.iface.freeOps = o
	return x
}

// end releases what a record held and notifies its completion. The device must have finished
// with the request.
func (i *iface) end(x *op, err error) {
	i.reading -= x.reads
	switch x.where {
	case bufPool:
		if x.unpack != nil && err == nil {
			x.unpack.Unpack(i.bufs.Data(x.slot)[:x.n])
		}
		i.bufs.Put(x.slot)
	case hdrPool:
		if x.word != nil && err == nil {
			*x.word = binary.NativeEndian.Uint64(i.hdrs.Data(x.slot)) // as the device has stored it
		}
		i.hdrs.Put(x.slot)
	}
	if x.comp != nil {
		x.comp.Done(err)
	}
}

// completed ends the records of requests up to number count.
func (e *endpoint) completed(count uint32) {
	for e.ops.head != nil && int32(e.ops.head.count-count) <= 0 {
		x := e.pop()
		e.iface.end(&x, nil)
	}
}

// endOps ends all records with an error. The queue pair must have been destroyed.
func (e *endpoint) endOps(err error) {
	for e.ops.head != nil {
		x := e.pop()
		e.iface.end(&x, err)
	}
}

// marked ends, without an error, the record of the failed request number count, if that request
// only confirmed those before it.
func (e *endpoint) marked(count uint32) {
	if o := e.ops.head; o != nil && o.count == count && o.marker {
		x := e.pop()
		e.iface.end(&x, nil)
	}
}
