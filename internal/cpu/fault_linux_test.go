package cpu

import (
	"runtime"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCopyFault: memory that is not there any more is a panic that can be
// recovered from, in the middle of a copy too.
func TestCopyFault(t *testing.T) {
	const size = 64 << 10
	fd, err := unix.MemfdCreate("copy", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, size); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	if err := unix.Ftruncate(fd, size/2); err != nil {
		t.Fatal(err)
	}
	own := make([]byte, size)
	for _, c := range []struct {
		name     string
		dst, src []byte
	}{{"from it", own, mem}, {"to it", mem, own}} {
		t.Run(c.name, func(t *testing.T) {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() {
				if _, ok := recover().(runtime.Error); !ok {
					t.Error("no fault")
				}
			}()
			Copy(c.dst, c.src)
		})
	}
}
