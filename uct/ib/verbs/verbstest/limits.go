//go:build linux

package verbstest

import "syscall"

// Limits are the most that a device has of something. 0 is as much as the kind of device has, a
// negative number is none.
type Limits struct {
	QPs      int   // queue pairs
	WR       int   // work requests in a queue of a queue pair
	SGE      int   // pieces of memory in a work request
	Inline   int   // bytes of inline data
	CQE      int   // completions in a queue
	SRQs     int   // shared receive queues
	SRQWR    int   // receives in one
	RdAtomic int   // reads and atomics of a queue pair under way, and that it is the target of
	MemLock  int64 // bytes in all memory regions, in whole pages; 0: any number

	NoAtomics bool // there are none
}

// GRH is what a device writes of the header that datagrams are received with.
type GRH uint8

const (
	// GRHFull is all of it: of an IPv4 packet zeros and the IPv4 header behind them, as
	// rdma_rxe does.
	GRHFull GRH = iota
	// GRHHalf leaves the first half of that of an IPv4 packet alone.
	GRHHalf
	// GRHNone leaves all of it alone, and does not say in completions that there is one.
	GRHNone
)

// limit is a limit, or what there is by default.
func limit[T int | int64](configured, byDefault T) T {
	switch {
	case configured == 0:
		return byDefault
	case configured < 0:
		return 0
	}
	return configured
}

// filled are the limits with the defaults.
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
	maxMTU      = 5 // 4096 bytes
	maxPorts    = 2
	vectors     = 2
)

// pin counts n bytes more in memory regions, or n fewer, unless they are too many.
// Lock held.
func (k *Kernel) pin(n int64) syscall.Errno {
	if n > 0 && k.pinned+n > k.cfg.Limits.MemLock {
		return syscall.ENOMEM
	}
	k.pinned += n
	k.pinnedMost = max(k.pinnedMost, k.pinned)
	return 0
}

// pages is what a piece of memory takes, in bytes of whole pages.
func pages(addr, n uint64) int64 {
	const page = 4096
	return int64((addr+n+page-1)&^(page-1) - addr&^(page-1))
}

// SetMemLock changes the limit of Limits.MemLock, for what is registered from now on.
func (k *Kernel) SetMemLock(bytes int64) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.cfg.Limits.MemLock = limit(bytes, 1<<62)
}

// Pinned is how many bytes there are in memory regions, and how many there were at most.
func (k *Kernel) Pinned() (now, most int64) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	return k.pinned, k.pinnedMost
}

// SetResolve has f asked about every address that an address handle is made for or a
// queue pair is connected to: it returns what the kernel answers if it does not find
// the neighbor, as ETIMEDOUT, ENETUNREACH or EINVAL, and 0 if it does. Meanwhile
// everything else goes on, and f may take its time. nil: all are found.
func (k *Kernel) SetResolve(f func(from, to [16]byte) syscall.Errno) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.resolve = f
}

// resolve is what the kernel says of a way. The lock is released meanwhile: objects may have
// gone afterwards, and the file.
func (f *file) resolve(w *way) syscall.Errno {
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
