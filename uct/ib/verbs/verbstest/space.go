//go:build linux

package verbstest

import (
	"os"

	"golang.org/x/sys/unix"
)

// Space is the memory of a program that has a device open, by the program's own addresses. It holds
// the memory that work requests name, and the queues whose memory the program provides. Any
// goroutine may use a Space.
type Space interface {
	// Read fills b from an address, and reports whether all of it was mapped.
	Read(addr uint64, b []byte) bool
	// Write stores b at an address, and reports whether all of it was mapped.
	Write(addr uint64, b []byte) bool
	// Mapped reports whether n bytes at an address are mapped.
	Mapped(addr, n uint64) bool
	// Gone reports whether the program has ended, and its memory with it.
	Gone() bool
}

// Remote returns the memory of another process. This process must have the right to trace it, as it
// has for a child.
func Remote(pid int) Space { return remote(pid) }

// remote is the memory of the process with this number.
type remote int

// Read implements Space.
func (r remote) Read(addr uint64, b []byte) bool {
	return len(b) == 0 || transfer(unix.ProcessVMReadv, int(r), addr, b)
}

// Write implements Space.
func (r remote) Write(addr uint64, b []byte) bool {
	return len(b) == 0 || transfer(unix.ProcessVMWritev, int(r), addr, b)
}

// Mapped implements Space. It reads one byte of each page.
func (r remote) Mapped(addr, n uint64) bool {
	if n == 0 || n > maxMapped || addr+n < addr {
		return false
	}
	const page = 4096
	var b [1]byte
	for at := addr; at < addr+n; at = (at + page) &^ (page - 1) {
		if !r.Read(at, b[:]) {
			return false
		}
	}
	return true
}

// Gone implements Space.
func (r remote) Gone() bool { return unix.Kill(int(r), 0) == unix.ESRCH }

// maxMapped is the largest length that Mapped accepts.
const maxMapped = 1 << 32

// memory returns the memory of the program that has the device open, for accesses to addresses that
// have not been checked.
func (f *file) memory() Space {
	if f.space != nil {
		return f.space
	}
	return Remote(os.Getpid())
}
