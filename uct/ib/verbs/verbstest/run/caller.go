//go:build linux && (amd64 || arm64)

package run

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// caller is who waits for the answer to a call: a thread of a program. The loop's
// goroutine has it.
type caller struct {
	m   *Machine
	id  uint64 // of the call
	tid int
	mem *space // nil until something is written
}

// fileID tells files from others, whatever descriptors they have.
type fileID struct{ dev, ino uint64 }

// file is what a descriptor of the program leads to.
func (c *caller) file(fd int) (fileID, bool) {
	var st unix.Stat_t
	if fd < 0 || unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", c.tid, fd), &st) != nil {
		return fileID{}, false
	}
	return fileID{uint64(st.Dev), st.Ino}, true
}

// device is the device that a descriptor is of, nil if it is of none.
func (c *caller) device(fd int) *device {
	id, ok := c.file(fd)
	if !ok {
		return nil
	}
	return c.m.devices[id]
}

// process is the number of the process that the thread is of, 0 if it is gone.
func (c *caller) process() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.tid))
	_, rest, _ := strings.Cut(string(text), "\nTgid:\t")
	number, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(number)
	return n
}

// Read copies from the program's memory.
func (c *caller) Read(addr uint64, b []byte) bool {
	return len(b) == 0 || c.readUpTo(addr, b) == len(b)
}

// readUpTo copies from the program's memory as far as there is any, to the end of a page.
func (c *caller) readUpTo(addr uint64, b []byte) int {
	size := uint64(os.Getpagesize())
	there := make([]unix.RemoteIovec, 0, 4)
	for at, end := addr, addr+uint64(len(b)); at < end; {
		next := min(end, (at+size)&^(size-1))
		there = append(there, unix.RemoteIovec{Base: uintptr(at), Len: int(next - at)})
		at = next
	}
	here := unix.Iovec{Base: &b[0]}
	here.SetLen(len(b))
	n, err := unix.ProcessVMReadv(c.tid, []unix.Iovec{here}, there, 0)
	if err != nil {
		return 0
	}
	return n
}

// Write copies to the program's memory, and to no other's: it is opened while the program
// is known to wait.
func (c *caller) Write(addr uint64, b []byte) bool {
	if c.mem == nil {
		s, err := openSpace(c.tid)
		if err != nil {
			return false
		}
		c.mem = s
		if !c.m.valid(c.id) {
			return false
		}
	}
	return c.mem.Write(addr, b)
}

// done gives back what it took to answer.
func (c *caller) done() {
	if c.mem != nil {
		c.mem.close()
	}
}

// name is the name of a file that a call is about, absolute and clean. ok is false if it
// cannot be in the tree: names that count from a folder are for the kernel, which has the
// tree's folders open too.
func (c *caller) name(folder int, addr uint64) (name string, ok bool) {
	var b [unix.PathMax]byte
	n := c.readUpTo(addr, b[:])
	end := bytes.IndexByte(b[:n], 0)
	if end <= 0 || b[0] != '/' {
		return "", false
	}
	name = path.Clean(string(b[:end]))
	if !c.m.tree.covers(name) {
		return "", false
	}
	c.m.renew()
	return name, true
}

// errnoOf is the errno of an error of package unix.
func errnoOf(err error) syscall.Errno {
	e, _ := err.(syscall.Errno)
	return e
}
