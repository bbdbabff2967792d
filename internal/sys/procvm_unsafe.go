//go:build linux

package sys

// Soundness: the conversions are inside the argument lists, so local and remote stay alive and in
// place until the call returns. The typed pointers in local keep the local memory alive; addresses
// in remote are those of another process.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ReadProcess copies from the memory of process pid into local, which must not be empty, and
// returns the number of bytes. It is less than requested if an address of the remote memory is not
// mapped.
func ReadProcess(pid int, local []unix.Iovec, remote *unix.RemoteIovec) (int, unix.Errno) {
	return processVM(unix.SYS_PROCESS_VM_READV, pid, local, remote)
}

// WriteProcess is ReadProcess in the opposite direction.
func WriteProcess(pid int, local []unix.Iovec, remote *unix.RemoteIovec) (int, unix.Errno) {
	return processVM(unix.SYS_PROCESS_VM_WRITEV, pid, local, remote)
}

func processVM(call uintptr, pid int, local []unix.Iovec, remote *unix.RemoteIovec) (int, unix.Errno) {
	for {
		n, _, e := unix.RawSyscall6(call, uintptr(pid),
			uintptr(unsafe.Pointer(unsafe.SliceData(local))), uintptr(len(local)),
			uintptr(unsafe.Pointer(remote)), 1, 0)
		if e == 0 {
			return int(n), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}
