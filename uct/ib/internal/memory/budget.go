//go:build linux

package memory

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
)

// The memory that a process may pin is shared by the pools of its interfaces, the memory that the
// application registers, and the memory of large messages, which is registered while they are in
// flight. Pools grow with the traffic and never shrink, so they stop growing when all of them have
// half of the limit. The first chunk of a pool is always allowed.

// pooled is the size of all chunks of the process, in bytes.
var pooled atomic.Int64

// lockable returns how many bytes the process may pin. Tests replace it.
var lockable = func() int64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) != nil || l.Cur > math.MaxInt64 || mayLockAll() {
		return math.MaxInt64
	}
	return int64(l.Cur)
}

// mayLockAll reports whether the limit does not apply to the process: that is so with
// CAP_IPC_LOCK in the initial user namespace. Root in a container with a user namespace of its
// own has that capability too, but the limit applies to it (capable in ib_umem_get of
// drivers/infiniband/core/umem.c).
var mayLockAll = sync.OnceValue(func() bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	return unix.Capget(&h, &d[0]) == nil && d[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0 && !sys.OwnNamespace()
})

// shortage is the backoff of a pool that could not grow. Memory may be released elsewhere
// without a notification, so the pool tries to grow again. After each failure, the number of
// opportunities to grow that are skipped before the next try doubles.
type shortage struct {
	why  error // error of the last try to grow; nil: there is no shortage
	wait int   // opportunities to skip after the last failure
	skip int   // opportunities of these that are still to be skipped
}

// maxSkip bounds the skipped opportunities, so that a pool notices released memory before long.
const maxSkip = 1 << 10

// mayTry reports whether to try to grow now, and counts a skipped opportunity.
func (s *shortage) mayTry() bool {
	if s.why != nil && s.skip > 0 {
		s.skip--
		return false
	}
	return true
}

// tried records the result of a try to grow.
func (s *shortage) tried(err error) {
	if s.why = err; err == nil {
		s.wait = 0
		return
	}
	s.wait = min(max(2*s.wait, 8), maxSkip)
	s.skip = s.wait
}

// mayGrow returns nil if pools may grow by n bytes, else an error that matches ucs.ErrNoMemory.
func mayGrow(n int) error {
	if most := lockable() / 2; pooled.Load()+int64(n) > most {
		return fmt.Errorf("ib: buffers of interfaces need %d bytes, and half of the memory that may be locked is %d: raise the limit (ulimit -l): %w",
			pooled.Load(), most, ucs.ErrNoMemory)
	}
	return nil
}
