//go:build linux

package verbstest

// Soundness: memory of this process is made a slice of only where it belongs to a
// region or a queue, which was checked to be mapped when it was registered; that it
// stays is what registering promises, in C as here. Everything else, and what is
// another process's, is copied by the kernel, which checks each address.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// transfer is process_vm_readv(2) or process_vm_writev(2) of all of b.
func transfer(call func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error), pid int, addr uint64, b []byte) bool {
	there := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}
	mine := [1]unix.Iovec{{Base: unsafe.SliceData(b)}}
	mine[0].SetLen(len(b))
	n, err := call(pid, mine[:], there[:], 0)
	return err == nil && n == len(b)
}

// mapped reports whether this process has memory at an address.
func mapped(addr, n uint64) bool {
	const page = 4096
	if n == 0 || n > maxMapped || addr > 1<<48 {
		return false
	}
	from := addr &^ (page - 1)
	pages := (addr + n - from + page - 1) / page
	vec := make([]byte, pages)
	_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(from), uintptr(pages*page), uintptr(unsafe.Pointer(&vec[0])))
	return e == 0
}

// memory is n bytes of this process.
func memory(addr uint64, n int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n)
}
