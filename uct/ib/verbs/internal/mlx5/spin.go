//go:build linux

package mlx5

import (
	"runtime"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/word"
)

// spin is the spin lock of a completion queue. Poll holds it. Poll waits for it only while a queue
// pair is destroyed or reset, and no goroutine holds it during a system call. It is cheaper than a
// sync.Mutex, whose Unlock has another locked instruction.
type spin struct{ held uint32 }

func (s *spin) lock() {
	if atomic.SwapUint32(&s.held, 1) != 0 {
		s.wait()
	}
}

//go:noinline
func (s *spin) wait() {
	for atomic.SwapUint32(&s.held, 1) != 0 {
		runtime.Gosched()
	}
}

func (s *spin) unlock() { word.StoreRelease32(&s.held, 0) }
