package shm

import (
	"fmt"
	"runtime"

	"github.com/ucx-go/ucx/ucs"
)

// faultAddress returns the address of a fault that debug.SetPanicOnFault turned
// into the panic value r. Any other panic goes on.
func faultAddress(r any) uint64 {
	f, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok {
		panic(r)
	}
	return uint64(f.Addr())
}

// covers reports whether addr is inside a mapping.
func covers(mem []byte, addr uint64) bool {
	return len(mem) > 0 && addr-addressOf(mem) < uint64(len(mem))
}

// errFault says that memory of a peer is not there any more.
func errFault(addr uint64) error {
	return fmt.Errorf("shm: the peer has cut its shared memory short: fault at %#x: %w", addr, ucs.ErrConnectionReset)
}
