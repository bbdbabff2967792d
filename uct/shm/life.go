//go:build linux

package shm

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
)

// Memory that peers have mapped stays mapped when its owner frees it: what a peer then writes is
// lost without an error. So the owner of an allocation records whether the memory may still be
// accessed. The record is in the life page: a page of the segment, behind the memory, that no key
// opens. Peers read that record before each access. C UCX neither has such a page nor sees one: a
// key of posix has the length of the memory, and a key of System V is used with addresses of the
// memory alone.

// lifeMagic begins a life page. It distinguishes a life page from application memory in the last
// page of a segment of C UCX: 16 random bytes.
const lifeMagic = "\x9b\xe1\x4c\x07\xd5\x3a\xf2\x68\x81\x1e\xc6\xb9\x50\x7d\xa4\x23"

// The layout of a life page: the magic, then a 32-bit word.
const (
	lifeWord  = len(lifeMagic)
	lifeBytes = lifeWord + 4

	lifeOpen    = 1
	lifeRevoked = 2
)

// life is the beginning of a life page, behind memory of this process or of a peer; nil if there is
// no life page.
type life []byte

// begin initialises the life page of new memory.
func (l life) begin() {
	atomic.StoreUint32(word32(l, lifeWord), lifeOpen)
	copy(l, lifeMagic)
}

// revoke records that the memory may not be accessed any more.
func (l life) revoke() {
	if l != nil {
		atomic.StoreUint32(word32(l, lifeWord), lifeRevoked)
	}
}

// revoked reports whether the owner has revoked access.
func (l life) revoked() bool { return l != nil && atomic.LoadUint32(word32(l, lifeWord)) != lifeOpen }

// lifeOf returns the life page at the end of a peer's segment, nil if the segment has none.
func lifeOf(a *attachment) life {
	if len(a.mem) < 2*pageSize {
		return nil
	}
	l := life(a.mem[len(a.mem)-pageSize:][:lifeBytes])
	if ours, _, err := a.lookAt(l); err != nil || !ours {
		return nil
	}
	return l
}

// lookAt reads a life page inside a fence, because the segment may shrink. ours reports whether the
// page has the magic. An error means that the segment was truncated.
func (a *attachment) lookAt(l life) (ours, revoked bool, err error) {
	defer fault.End(fault.Begin(), a, nil, &err)
	return string(l[:lifeWord]) == lifeMagic, l.revoked(), nil
}

// Fault implements fault.Owner, for lookAt.
func (a *attachment) Fault(addr uint64, _ []byte) error {
	if !fault.Within(addr, a.mem) {
		return nil
	}
	return ucs.ErrConnectionReset
}

// alwaysOpen replaces the word of the life page for memory whose owner has no life page, or can
// take the page away.
var alwaysOpen uint32 = lifeOpen

// openWord returns the word to read before each access to a's memory. l is its life page.
func openWord(a *attachment, l life) *uint32 {
	if l == nil || a.shrink {
		return &alwaysOpen
	}
	return word32(l, lifeWord)
}

// revoked reports whether the memory may not be accessed any more. It returns false if the owner
// has truncated the segment, because the access itself then fails.
func (k *remoteKey) revoked() bool {
	if k.life == nil {
		return false
	}
	_, revoked, err := k.seg.lookAt(k.life)
	return err == nil && revoked
}

//go:noinline
func errRevoked() error {
	return fmt.Errorf("shm: the owner has freed the memory: %w", ucs.ErrInvalidAddr)
}

// leases opens files on which other processes may have a lease (F_SETLEASE in fcntl(2)). An honest
// owner holds a lease only briefly (posix.held), but may be preempted meanwhile. A hostile owner
// can hold leases for as long as the kernel allows, and on any number of files. Opening a file
// waits inside a round of progress, so the total of the waits of a domain is bounded: after a total
// of leaseMost little time is spent on waits, and a file that has a lease then cannot be opened.
type leases struct {
	mu    sync.Mutex
	spent time.Duration // guarded by mu: time spent on waits, less 1/leaseShare of elapsed time
	at    time.Duration // guarded by mu: time of the last update of spent

	now   func() time.Duration // replaces the clock, unless nil
	sleep func()               // replaces the wait, unless nil
}

const (
	leaseLooks = 10                     // tries to open without a wait
	leaseWaits = 20                     // tries to open, each after a wait
	leaseMost  = 100 * time.Millisecond // time allowed for waits at once
	leaseShare = 100                    // 1/leaseShare of any longer time may be spent on waits
)

// open opens a file for reading and writing. If another process keeps a lease on the file it
// returns unix.EAGAIN.
func (l *leases) open(path string) (fd int, err error) {
	for try := range leaseLooks + leaseWaits {
		fd, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != unix.EAGAIN || try >= leaseLooks && !l.wait() {
			break
		}
		runtime.Gosched()
	}
	return fd, err
}

// wait sleeps for a millisecond, or returns false if too much time was spent on waits.
func (l *leases) wait() bool {
	began := l.time()
	l.mu.Lock()
	l.spent = max(l.spent-(began-l.at)/leaseShare, 0)
	l.at = began
	may := l.spent < leaseMost
	l.mu.Unlock()
	if !may {
		return false
	}
	if l.sleep != nil {
		l.sleep()
	} else {
		unix.Poll(nil, 1)
	}
	l.mu.Lock()
	l.spent += l.time() - began
	l.mu.Unlock()
	return true
}

// loaded is approximately the time at which the program started.
var loaded = time.Now()

func (l *leases) time() time.Duration {
	if l.now != nil {
		return l.now()
	}
	return sinceLoaded()
}

func sinceLoaded() time.Duration { return time.Since(loaded) }
