//go:build linux

package verbstest

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

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

// pipe makes a descriptor that the user reads records from.
func (f *file) pipe() (read, write int, errno syscall.Errno) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, 0, syscall.EMFILE
	}
	unix.SetNonblock(p[1], true)
	f.pipes = append(f.pipes, p[1])
	f.readEnds = append(f.readEnds, p[0])
	return p[0], p[1], 0
}

// event tells the user of something that happened.
func (f *file) event(typ uint32, element uint64) {
	if !f.async {
		return
	}
	e := abi.AsyncEventDesc{Element: element, EventType: typ}
	unix.Write(f.asyncFD, abi.Bytes(&e)) // as in C, a reader too slow loses events
}
