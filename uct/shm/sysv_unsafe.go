//go:build linux

package shm

// Soundness: the kernel returns a mapping of the segment's length, which was rounded up to
// whole pages of the segment before, and the slice made of the mapping ends with the mapping.
// The address asked for is a number passed to the kernel, which maps no segment over another
// mapping: SHM_REMAP is not set.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// newSysv creates a segment of size bytes, attaches the segment at addr, or anywhere if that
// fails and fixed is false, and marks the segment for removal. A marked segment is removed by
// the kernel when the last process detaches it. An unmarked segment outlives a process that is
// killed, and a segment that no process has attached cannot be marked without being removed at
// once. So the three calls follow each other directly, as raw system calls: the Go scheduler
// does not run in between. get is the error of shmget, err the error of the calls after it.
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
