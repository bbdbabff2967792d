//go:build linux

package verbstest

// Soundness: memory of this process becomes a slice only if it belongs to a region or a queue,
// which was checked to be mapped at registration; the owner promises to keep it mapped, in C as
// here. All other memory, and that of other processes, is copied by the kernel, which checks each
// address.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// transfer copies all of b by process_vm_readv(2) or process_vm_writev(2), and reports success.
func transfer(call func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error), pid int, addr uint64, b []byte) bool {
	there := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}
	mine := [1]unix.Iovec{{Base: unsafe.SliceData(b)}}
	mine[0].SetLen(len(b))
	n, err := call(pid, mine[:], there[:], 0)
	return err == nil && n == len(b)
}

// mapped reports whether n bytes at an address are mapped in this process.
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

// memory returns n bytes of this process's memory as a slice.
func memory(addr uint64, n int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n)
}
