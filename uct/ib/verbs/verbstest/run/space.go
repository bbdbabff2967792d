//go:build linux && (amd64 || arm64)

package run

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// space is the memory of the program that a process was executing when the space was opened. After
// the program has ended, or has executed another program, nothing can be accessed. Any goroutine
// may use a space until it is closed.
type space struct{ fd int }

// openSpace opens the memory of the program that a thread executes.
func openSpace(tid int) (*space, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/mem", tid), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &space{fd}, nil
}

// Read implements verbstest.Space.
func (s *space) Read(addr uint64, b []byte) bool { return all(unix.Pread, s.fd, addr, b) }

// Write implements verbstest.Space.
func (s *space) Write(addr uint64, b []byte) bool { return all(unix.Pwrite, s.fd, addr, b) }

// all calls the function call until all of b is transferred, in as many pieces as needed. It
// reports success.
func all(call func(fd int, b []byte, at int64) (int, error), fd int, addr uint64, b []byte) bool {
	if addr > math.MaxInt64-uint64(len(b)) {
		return false
	}
	for len(b) > 0 {
		n, err := call(fd, b, int64(addr))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return false
		}
		b = b[n:]
		addr += uint64(n)
	}
	return true
}

// maxMapped is the largest length that Mapped accepts.
const maxMapped = 1 << 32

// Mapped implements verbstest.Space. It reads one byte of each page.
func (s *space) Mapped(addr, n uint64) bool {
	if n == 0 || n > maxMapped || addr > math.MaxInt64-n {
		return false
	}
	page := uint64(os.Getpagesize())
	var b [1]byte
	for at := addr; at < addr+n; at = (at + page) &^ (page - 1) {
		if !s.Read(at, b[:]) {
			return false
		}
	}
	return true
}

// Gone implements verbstest.Space. It is also true after the program has executed another program:
// a read then reports the end of the file, where otherwise it returns data or an error (mem_rw,
// fs/proc/base.c).
func (s *space) Gone() bool {
	var b [1]byte
	n, err := unix.Pread(s.fd, b[:], 0)
	return err == nil && n == 0
}

func (s *space) close() { unix.Close(s.fd) }
