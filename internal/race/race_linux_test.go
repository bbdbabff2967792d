package race

import (
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestHandover passes ordinary memory to another goroutine by a flag in mapped memory, as
// transports do. The race detector does not see such flags: without Release and Acquire it would
// report a race and fail the test.
func TestHandover(t *testing.T) {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	flag := (*uint32)(unsafe.Pointer(&page[0]))
	var place byte
	var data int
	read := make(chan int)
	go func() {
		for atomic.LoadUint32(flag) == 0 {
			runtime.Gosched()
		}
		Acquire(&place)
		read <- data
	}()
	data = 1
	Release(&place)
	atomic.StoreUint32(flag, 1)
	if got := <-read; got != 1 {
		t.Errorf("the other goroutine has read %d", got)
	}
}
