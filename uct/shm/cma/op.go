//go:build linux

package cma

import (
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/uct"
)

// opKind is what an op does.
type opKind uint8

const (
	opPut   opKind = iota
	opGet          // all kinds but flushes copy
	opFlush        // tells its completion when those before it are over
)

func (k opKind) String() string {
	return [...]string{"process_vm_writev", "process_vm_readv", "flush"}[k]
}

// op is an operation under way.
type op struct {
	next  *op
	kind  opKind
	comp  *uct.Completion // nil: nobody wants to know
	raddr uint64          // what is left to do: from here in the peer
	left  int             // so many bytes
	bufs  [][]byte        // and this memory, from bufs[first] on; no entry is empty
	first int
}

// maxVec is the number of entries given to the kernel at once (UCT_SM_MAX_IOV).
const maxVec = 16

// set makes an op of the entries of a list. It drops the empty ones.
func (o *op) set(kind opKind, iov []uct.IOV, n int, raddr uint64, c *uct.Completion) {
	o.kind, o.comp, o.raddr, o.left = kind, c, raddr, n
	for k := range iov {
		if b := iov[k].Data; len(b) > 0 {
			o.bufs = append(o.bufs, b)
		}
	}
}

// reset lets go of the memory.
func (o *op) reset() {
	clear(o.bufs)
	*o = op{bufs: o.bufs[:0]}
}

// piece copies at most seg bytes in one call of the kernel and returns how many
// it copied. They stay part of the op, see advance. The call may wait, for pages
// of either process. Go's scheduler is not told: it would watch each call, at a
// sixth of the rate of 64 KiB messages. A peer could make us wait by means of its
// memory; but unless we are privileged the kernel lets us do this only to processes
// of the same user, and such a one could as well stop us by a signal.
func (o *op) piece(pid, seg int) (int, unix.Errno) {
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

// advance takes n bytes off the front, at most what a piece had.
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

// queue is the operations of an endpoint, in order. The zero value is empty.
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

// pop removes the first. There must be one.
func (q *queue) pop() *op {
	o := q.head
	if q.head = o.next; q.head == nil {
		q.tail = nil
	}
	o.next = nil
	return o
}
