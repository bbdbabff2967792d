//go:build linux

package verbstest

import (
	"syscall"
)

// Limits are the limits of a device. 0 stands for the default of the kind of device, a negative
// number for none.
type Limits struct {
	QPs      int   // queue pairs
	WR       int   // work requests in a queue of a queue pair
	SGE      int   // scatter/gather elements of a work request
	Inline   int   // bytes of inline data
	CQE      int   // completions in a completion queue
	SRQs     int   // shared receive queues
	SRQWR    int   // receives in a shared receive queue
	RdAtomic int   // outstanding reads and atomics of a queue pair, as initiator and as target
	MemLock  int64 // bytes in all memory regions, in whole pages; 0: no limit

	NoAtomics bool // the device has no atomic operations
}

// GRH selects how much of the global route header a device writes in front of a datagram.
type GRH uint8

const (
	// GRHFull writes the whole area: for an IPv4 packet zeros and then the IPv4 header, as rdma_rxe
	// does.
	GRHFull GRH = iota
	// GRHHalf leaves the first half of the area of an IPv4 packet unwritten.
	GRHHalf
	// GRHNone writes no header, and completions do not report one.
	GRHNone
)

// limit returns a configured limit: the default if it is 0, and 0 if it is negative.
func limit[T int | int64](configured, byDefault T) T {
	switch {
	case configured == 0:
		return byDefault
	case configured < 0:
		return 0
	}
	return configured
}

// filled returns the limits with the defaults filled in.
func (l Limits) filled(by Limits) Limits {
	return Limits{
		QPs: limit(l.QPs, by.QPs), WR: limit(l.WR, by.WR), SGE: limit(l.SGE, by.SGE), Inline: limit(l.Inline, by.Inline),
		CQE: limit(l.CQE, by.CQE), SRQs: limit(l.SRQs, by.SRQs), SRQWR: limit(l.SRQWR, by.SRQWR), RdAtomic: limit(l.RdAtomic, by.RdAtomic),
		MemLock: limit(l.MemLock, by.MemLock), NoAtomics: l.NoAtomics,
	}
}

// Limits of rdma_rxe.
const (
	maxWR       = 1 << 14
	maxCQE      = 32767
	maxSGE      = 32
	maxSRQSGE   = 27
	maxInline   = 512
	maxRdAtomic = 128
	maxMsgSize  = 8 << 20
	maxMTU      = 5 // enum ib_mtu: 4096 bytes
	maxPorts    = 2
	vectors     = 2
)

// pin adds n bytes, which may be negative, to the pinned memory. It fails with ENOMEM if that
// exceeds Limits.MemLock. The caller holds Fabric.mu.
func (k *Kernel) pin(n int64) syscall.Errno {
	if n > 0 && k.pinned+n > k.cfg.Limits.MemLock {
		return syscall.ENOMEM
	}
	k.pinned += n
	k.pinnedMost = max(k.pinnedMost, k.pinned)
	return 0
}

// pages returns the size in bytes of the pages that a range of memory touches.
func pages(addr, n uint64) int64 {
	const page = 4096
	return int64((addr+n+page-1)&^(page-1) - addr&^(page-1))
}

// SetMemLock changes Limits.MemLock for later registrations.
func (k *Kernel) SetMemLock(bytes int64) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.cfg.Limits.MemLock = limit(bytes, 1<<62)
}

// Pinned returns the bytes in memory regions now, and their maximum so far.
func (k *Kernel) Pinned() (now, most int64) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	return k.pinned, k.pinnedMost
}

// SetResolve installs a function that resolves every destination that an address handle is made for
// or a queue pair is connected to. f returns the error with which the kernel fails when it finds no
// neighbor, such as ETIMEDOUT, ENETUNREACH or EINVAL, and 0 if there is one. The lock is not held
// during the call, so f may block. nil: every destination is found.
func (k *Kernel) SetResolve(f func(from, to [16]byte) syscall.Errno) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.resolve = f
}

// resolve calls the function that SetResolve has set for the destination of a path and returns its result. It
// releases Fabric.mu during the call, so objects may be gone when it returns. If the file was
// closed or the device removed meanwhile, it fails.
func (f *file) resolve(w *path) syscall.Errno {
	ask := f.k.resolve
	if ask == nil || !w.global {
		return 0
	}
	from := w.source().ID
	f.k.net.mu.Unlock()
	errno := ask(from, w.dgid)
	f.k.net.mu.Lock()
	switch {
	case f.closed:
		return syscall.EBADF
	case f.k.removed || f.dead:
		return syscall.EIO
	}
	return errno
}

// Errnos are the failures of calls that a simulated kernel injects, by the name of the call. This
// package and rdmacmtest use it. The zero value injects none. It must not be used concurrently.
type Errnos struct {
	next map[string]*failure
}

type failure struct {
	skip  int
	errno syscall.Errno
}

// Fail makes a call fail once, after it has been let through skip times.
func (e *Errnos) Fail(name string, skip int, errno syscall.Errno) {
	if e.next == nil {
		e.next = make(map[string]*failure)
	}
	e.next[name] = &failure{skip: skip, errno: errno}
}

// Take returns the error that a call fails with now, 0 if it succeeds.
func (e *Errnos) Take(name string) syscall.Errno {
	f := e.next[name]
	if f == nil {
		return 0
	}
	if f.skip > 0 {
		f.skip--
		return 0
	}
	delete(e.next, name)
	return f.errno
}

// has reports whether a failure of a call is pending.
func (e *Errnos) has(name string) bool { return e.next[name] != nil }
