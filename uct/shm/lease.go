//go:build linux

package shm

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// leases opens files on which other processes may have a lease (F_SETLEASE in fcntl(2)). An
// honest owner has a lease for a moment (posix.held), in which the owner may lose its CPU. A
// hostile owner has a lease for as long as the kernel allows, and on any number of files.
// Opening a file waits inside a round of progress, so the total of the waits of a domain is
// bounded: after leaseMost of them little time is spent on waits, and a file that has a lease
// then cannot be opened.
type leases struct {
	mu    sync.Mutex
	spent time.Duration // guarded by mu: time spent on waits, less 1/leaseShare of the time up to at
	at    time.Duration // guarded by mu

	now   func() time.Duration // replaces the clock, unless nil
	sleep func()               // replaces the wait, unless nil
}

const (
	leaseLooks = 10                     // tries without a wait
	leaseWaits = 20                     // tries after a wait
	leaseMost  = 100 * time.Millisecond // waits allowed at once
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

// loaded is about the time when the program started.
var loaded = time.Now()

func (l *leases) time() time.Duration {
	if l.now != nil {
		return l.now()
	}
	return sinceLoaded()
}

func sinceLoaded() time.Duration { return time.Since(loaded) }
