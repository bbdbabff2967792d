//go:build linux

package cma

import (
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/uct"
)

// opKind is the kind of an operation.
type opKind uint8

const (
	opPut   opKind = iota
	opGet          // all kinds except opFlush copy data
	opFlush        // completes when the operations before it have completed
)

func (k opKind) String() string {
	return [...]string{"process_vm_writev", "process_vm_readv", "flush"}[k]
}

// op is an outstanding operation of an endpoint. raddr, left and bufs describe the part that is not
// copied yet.
type op struct {
	next  *op
	kind  opKind
	comp  *uct.Completion // nil: no completion is called
	raddr uint64          // address of the next byte in the peer
	left  int             // bytes still to copy
	bufs  [][]byte        // local memory, from bufs[first] on; none of these is empty
	first int
}

// maxVec is the largest number of entries in one system call (UCT_SM_MAX_IOV).
const maxVec = 16

// set initialises o as an operation on the n bytes of iov, without its empty entries, and on the
// peer's memory at raddr.
func (o *op) set(kind opKind, iov []uct.IOV, n int, raddr uint64, c *uct.Completion) {
	o.kind, o.comp, o.raddr, o.left = kind, c, raddr, n
	for k := range iov {
		if b := iov[k].Data; len(b) > 0 {
			o.bufs = append(o.bufs, b)
		}
	}
}

// reset drops the references to the caller's memory.
func (o *op) reset() {
	clear(o.bufs)
	*o = op{bufs: o.bufs[:0]}
}

// copyOnce copies at most seg bytes in one system call and returns the number of bytes copied. It does
// not remove them from the operation; advance does. The call may block until pages of either
// process are available. It bypasses the Go scheduler, which would otherwise monitor each call, at
// a sixth of the rate of 64 KiB messages. A peer could block this process by means of its memory.
// But unless this process is privileged, the kernel permits access only to processes of the same
// user, and such a peer could also stop this process by a signal.
func (o *op) copyOnce(pid, seg int) (int, unix.Errno) {
	var local [maxVec]unix.Iovec
	entries, n := 0, 0
	for _, b := range o.bufs[o.first:] {
		if entries == maxVec || n == seg {
			break
		}
		b = b[:min(len(b), seg-n)]
		local[entries].Base = &b[0]
		local[entries].SetLen(len(b))
		entries++
		n += len(b)
	}
	remote := unix.RemoteIovec{Base: uintptr(o.raddr), Len: n}
	if o.kind == opPut {
		return sys.WriteProcess(pid, local[:entries], &remote)
	}
	return sys.ReadProcess(pid, local[:entries], &remote)
}

// advance removes the first n bytes from the operation, after copyOnce has copied them.
func (o *op) advance(n int) {
	o.raddr += uint64(n)
	o.left -= n
	for n > 0 {
		b := &o.bufs[o.first]
		if n < len(*b) {
			*b = (*b)[n:]
			return
		}
		n -= len(*b)
		*b = nil
		o.first++
	}
}

// queue is a FIFO of the outstanding operations of an endpoint. The zero value is empty.
type queue struct {
	head, tail *op
}

func (q *queue) push(o *op) {
	if q.tail == nil {
		q.head = o
	} else {
		q.tail.next = o
	}
	q.tail = o
}

// pop removes and returns the first operation. The queue must not be empty.
func (q *queue) pop() *op {
	o := q.head
	if q.head = o.next; q.head == nil {
		q.tail = nil
	}
	o.next = nil
	return o
}
