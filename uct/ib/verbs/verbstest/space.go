//go:build linux

package verbstest

import (
	"os"

	"golang.org/x/sys/unix"
)

// Space is the memory of a program that has a device open, by its own addresses. What
// work requests name lies there, and queues whose memory the program has brought. Any
// goroutine may use it.
type Space interface {
	// Read fills b from an address, and reports whether all of it was there.
	Read(addr uint64, b []byte) bool
	// Write stores b at an address, and reports whether there was room for all of it.
	Write(addr uint64, b []byte) bool
	// Mapped reports whether there are n bytes at an address.
	Mapped(addr, n uint64) bool
	// Gone reports whether the program has ended, and its memory with it.
	Gone() bool
}

// Remote is the memory of another process, which this one must have the right to
// trace: one that it has started.
func Remote(pid int) Space { return remote(pid) }

// remote is the memory of a process by its number.
type remote int

// Read implements Space.
func (r remote) Read(addr uint64, b []byte) bool {
	return len(b) == 0 || transfer(unix.ProcessVMReadv, int(r), addr, b)
}

// Write implements Space.
func (r remote) Write(addr uint64, b []byte) bool {
	return len(b) == 0 || transfer(unix.ProcessVMWritev, int(r), addr, b)
}

// Mapped implements Space. It reads a byte of each page.
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

// maxMapped bounds what can be asked for.
const maxMapped = 1 << 32

// memory is that of who has the device open, for addresses that may be anything.
func (f *file) memory() Space {
	if f.space != nil {
		return f.space
	}
	return Remote(os.Getpid())
}
