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

// caller is a thread of a program that waits for the answer to a system call. Only the goroutine of
// Machine.loop uses it.
type caller struct {
	m   *Machine
	id  uint64 // number of the call at the filter's listener
	tid int
	mem *space // nil until something is written
}

// fileID identifies a file independently of its descriptors.
type fileID struct{ dev, ino uint64 }

// file returns the file behind a descriptor of the program, false if the descriptor is not open.
func (c *caller) file(fd int) (fileID, bool) {
	var st unix.Stat_t
	if fd < 0 || unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", c.tid, fd), &st) != nil {
		return fileID{}, false
	}
	return fileID{uint64(st.Dev), st.Ino}, true
}

// device returns the device behind a descriptor, nil if the file is not a device.
func (c *caller) device(fd int) *device {
	id, ok := c.file(fd)
	if !ok {
		return nil
	}
	return c.m.devices[id]
}

// process returns the number of the thread's process, 0 if the process is gone.
func (c *caller) process() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.tid))
	_, rest, _ := strings.Cut(string(text), "\nTgid:\t")
	number, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(number)
	return n
}

// Read copies from the program's memory to b, and reports whether all of it was mapped.
func (c *caller) Read(addr uint64, b []byte) bool {
	return len(b) == 0 || c.readUpTo(addr, b) == len(b)
}

// readUpTo copies from the program's memory up to the first unmapped page, and returns the number
// of bytes.
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

// Write copies b to the program's memory, and reports success. It opens the memory and then checks
// that the thread still waits, so that the memory cannot be that of a later process with the same
// number.
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

// done frees what was needed to answer the call.
func (c *caller) done() {
	if c.mem != nil {
		c.mem.close()
	}
}

// name returns the file name at addr, an argument of the call, absolute and clean. If ok is false,
// the file is not in the simulated tree, and the kernel handles the call. Names relative to a
// folder are left to the kernel too, because descriptors of the tree's folders are real.
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
	c.m.updateTree()
	return name, true
}

// errnoOf returns the errno of an error of package unix, 0 if it has none.
func errnoOf(err error) syscall.Errno {
	e, _ := err.(syscall.Errno)
	return e
}
