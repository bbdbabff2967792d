//go:build linux

package ib

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
)

// What a process may pin it shares among the pools of its interfaces, the memory that the
// application registers and that of large messages, which is registered as long as
// they last. Pools grow with the traffic and keep what they have, so they leave half of
// it to the others. What they begin with they get in any case.

// pooled is the bytes of all chunks of the process.
var pooled atomic.Int64

// lockable is how many bytes the process may pin. Tests have others.
var lockable = func() int64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) != nil || l.Cur > math.MaxInt64 || mayLockAll() {
		return math.MaxInt64
	}
	return int64(l.Cur)
}

// mayLockAll reports whether the limit is none for the process: with CAP_IPC_LOCK in the user
// namespace of the machine. The root of a container of its own has that capability and is
// held to the limit (capable in ib_umem_get of drivers/infiniband/core/umem.c).
var mayLockAll = sync.OnceValue(func() bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	return unix.Capget(&h, &d[0]) == nil && d[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0 && !sys.OwnNamespace()
})

// shortage is that a pool could not grow. Others may give memory back, which nothing tells, so
// it is tried again: when it was in vain, each time after twice as many occasions.
type shortage struct {
	why  error // nil: there is none
	wait int   // occasions that are let pass
	skip int   // of which so many are left
}

// maxSkip bounds that, so that who has given memory back need not be waited for too long.
const maxSkip = 1 << 10

// occasion reports whether to try to grow.
func (s *shortage) occasion() bool {
	if s.why != nil && s.skip > 0 {
		s.skip--
		return false
	}
	return true
}

// tried is told what has come of that.
func (s *shortage) tried(err error) {
	if s.why = err; err == nil {
		s.wait = 0
		return
	}
	s.wait = min(max(2*s.wait, 8), maxSkip)
	s.skip = s.wait
}

// mayGrow says whether pools may have n bytes more.
func mayGrow(n int) error {
	if most := lockable() / 2; pooled.Load()+int64(n) > most {
		return fmt.Errorf("ib: buffers of interfaces take %d bytes, half of what may be locked is %d: raise the limit (ulimit -l): %w",
			pooled.Load(), most, ucs.ErrNoMemory)
	}
	return nil
}
