package fault

import (
	"errors"
	"os"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

var errGone = errors.New("gone")

// region is an Owner of one mapping.
type region struct {
	mem  []byte
	seen uint64
}

func (r *region) Fault(addr uint64, mem []byte) error {
	r.seen = addr
	if !Within(addr, r.mem) && !Within(addr, mem) {
		return nil
	}
	return errGone
}

// mapping returns a mapped page of a file, and cut, which truncates the file.
func mapping(t *testing.T) (mem []byte, cut func()) {
	t.Helper()
	fd, err := unix.MemfdCreate("fault_test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "fault_test")
	size := os.Getpagesize()
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Munmap(mem)
		f.Close()
	})
	return mem, func() {
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
	}
}

// read reads a byte of mem inside a fence.
func read(o Owner, given, mem []byte, at int) (b byte, err error) {
	defer End(Begin(), o, given, &err)
	return mem[at], nil
}

func TestFence(t *testing.T) {
	mem, cut := mapping(t)
	mem[7] = 9
	r := &region{mem: mem}
	if b, err := read(r, nil, mem, 7); b != 9 || err != nil {
		t.Errorf("%d, %v while the memory is there", b, err)
	}
	cut()
	if _, err := read(r, nil, mem, 7); err != errGone || r.seen != addressOf(mem)+7 {
		t.Errorf("%v at %#x, want a fault at %#x", err, r.seen, addressOf(mem)+7)
	}
	if _, err := read(&region{}, mem, mem, 0); err != errGone {
		t.Errorf("memory given with the call: %v", err)
	}
	func() { // without an error to set
		defer End(Begin(), r, nil, nil)
		mem[0] = 1
	}()
	if debug.SetPanicOnFault(false) {
		t.Error("faults stay panics")
	}
}

// readBriefly is read inside a Fence.
func readBriefly(o Owner, given, mem []byte, at int) (b byte, err error) {
	var f Fence
	f.Begin()
	defer f.End(o, given, &err)
	b = mem[at]
	f.Passed()
	return b, nil
}

// TestFenceInParts is TestFence for Fence.
func TestFenceInParts(t *testing.T) {
	for _, before := range []bool{false, true} {
		mem, cut := mapping(t)
		mem[7] = 9
		r := &region{mem: mem}
		was := debug.SetPanicOnFault(before)
		b, err := readBriefly(r, nil, mem, 7)
		after := debug.SetPanicOnFault(before)
		cut()
		_, broken := readBriefly(r, nil, mem, 7)
		last := debug.SetPanicOnFault(was)
		if b != 9 || err != nil {
			t.Errorf("%d, %v while the memory is there", b, err)
		}
		if broken != errGone || r.seen != addressOf(mem)+7 {
			t.Errorf("%v at %#x, want a fault at %#x", broken, r.seen, addressOf(mem)+7)
		}
		if after != before || last != before {
			t.Errorf("faults were panics %v before, are %v after a call and %v after a fault", before, after, last)
		}
	}
	r := &region{}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("an index out of range became an error")
			}
		}()
		readBriefly(r, nil, nil, 3)
	}()
	mem, _ := mapping(t)
	if n := testing.AllocsPerRun(100, func() { readBriefly(r, mem, mem, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestOtherPanics: panics other than faults in the owner's memory are not caught.
func TestOtherPanics(t *testing.T) {
	mem, cut := mapping(t)
	cut()
	panics := func(fn func()) (r any) {
		defer func() { r = recover() }()
		fn()
		return nil
	}
	if r := panics(func() { read(&region{}, nil, mem, 0) }); r == nil {
		t.Error("a fault elsewhere became an error")
	}
	if r := panics(func() { read(&region{mem: mem}, mem, nil, 3) }); r == nil {
		t.Error("an index out of range became an error")
	}
	if r := panics(func() {
		defer End(Begin(), &region{mem: mem}, mem, nil)
		panic("mine")
	}); r != "mine" {
		t.Errorf("a panic became %v", r)
	}
	if debug.SetPanicOnFault(false) {
		t.Error("faults stay panics")
	}
}

func TestWithin(t *testing.T) {
	b := make([]byte, 10)
	at := addressOf(b)
	for addr, want := range map[uint64]bool{at - 1: false, at: true, at + 9: true, at + 10: false, 0: false, ^uint64(0): false} {
		if Within(addr, b) != want {
			t.Errorf("%#x in 10 bytes at %#x: %v", addr, at, !want)
		}
	}
	if Within(0, nil) {
		t.Error("an address in nothing")
	}
}

func TestFenceDoesNotAllocate(t *testing.T) {
	mem, _ := mapping(t)
	r := &region{mem: mem}
	if n := testing.AllocsPerRun(100, func() { read(r, mem, mem, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
