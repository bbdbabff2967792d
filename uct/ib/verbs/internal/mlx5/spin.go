//go:build linux

package mlx5

import (
	"runtime"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/word"
)

// spin is the lock of a completion queue. Who polls has it for the time of that, and
// hardly ever has to wait: only while a queue pair is destroyed or reset, and never
// across a system call. It is cheaper than a sync.Mutex, for which giving back is another
// locked instruction.
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
