//go:build linux

package shm

// Soundness: the kernel gives a mapping of the segment's length, which was
// rounded up to whole pages of the segment before, and the slice made of it ends
// with it. The address wanted is a number given to the kernel, which puts no
// segment where something else is mapped: SHM_REMAP is not set.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// newSysv makes a segment of size bytes, attaches it at addr, or anywhere if it
// is not fixed there, and marks it for removal: from then on the kernel removes
// it with the last process that has it. Until then it outlives a process that is
// killed, and an id that nobody has attached cannot be marked without being
// removed at once. So the calls come one right after the other, raw: the
// scheduler of Go does not come in between. get is the error of the first call,
// err of what followed.
func newSysv(size, flags int, addr uint64, fixed bool) (id int, mem []byte, get, err error) {
	n, _, e := unix.RawSyscall(unix.SYS_SHMGET, unix.IPC_PRIVATE, uintptr(size), uintptr(flags))
	if e != 0 {
		return 0, nil, e, nil
	}
	p, _, e := unix.RawSyscall(unix.SYS_SHMAT, n, uintptr(addr), 0)
	if e != 0 && addr != 0 && !fixed {
		p, _, e = unix.RawSyscall(unix.SYS_SHMAT, n, 0, 0)
	}
	_, _, removed := unix.RawSyscall(unix.SYS_SHMCTL, n, unix.IPC_RMID, 0)
	if e != 0 {
		return 0, nil, nil, e
	}
	mem = unsafe.Slice((*byte)(unsafe.Add(nil, p)), size)
	if removed != 0 {
		unix.SysvShmDetach(mem)
		return 0, nil, nil, removed
	}
	return int(n), mem, nil, nil
}
