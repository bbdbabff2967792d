//go:build linux

package rc

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/uct"
)

// op is what a work request holds until it is over: a buffer, somebody who waits. Those of an
// endpoint are a list, in the order in which they were posted; requests that hold nothing are
// not in it.
type op struct {
	next   *op
	count  uint32 // that the endpoint's completed count reaches when it is over
	n      int    // bytes that are read into the buffer
	reads  int    // bytes that count as being read
	slot   int32  // buffer
	where  pool   // that it is of
	comp   *uct.Completion
	marker bool         // it is for what is before it
	unpack uct.Unpacker // of what was read into the buffer
	word   *uint64      // likewise
}

// pool says of which pool a buffer is.
type pool uint8

const (
	noPool  pool = iota
	bufPool      // of copied data
	hdrPool      // of headers, and words
)

// outstanding is how many requests the device may still be working on.
func (e *endpoint) outstanding() uint32 { return e.posted - e.done }

// awaits reports whether the request of a count is not over.
func (e *endpoint) awaits(count uint32) bool { return int32(count-e.done) > 0 }

// opQueue is the records of one endpoint.
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

// opChunk is how many records are made at once.
const opChunk = 64

//go:noinline
func (i *iface) moreOps() *op {
	list := make([]op, opChunk)
	for k := range list[1:] {
		list[k+1].next, i.freeOps = i.freeOps, &list[k+1]
	}
	return &list[0]
}

// hold appends a record of the request that was posted last.
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

// pop takes the first record out of the list.
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

// end gives back what a record held and tells who waits. The device is done with it.
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

// completed ends the records up to a count.
func (e *endpoint) completed(count uint32) {
	for e.ops.head != nil && int32(e.ops.head.count-count) <= 0 {
		x := e.pop()
		e.iface.end(&x, nil)
	}
}

// endOps ends all records, with an error. The queue pair must be gone.
func (e *endpoint) endOps(err error) {
	for e.ops.head != nil {
		x := e.pop()
		e.iface.end(&x, err)
	}
}

// marked ends the record of the request with a count, which has failed, if it is for those
// before it.
func (e *endpoint) marked(count uint32) {
	if o := e.ops.head; o != nil && o.count == count && o.marker {
		x := e.pop()
		e.iface.end(&x, nil)
	}
}
