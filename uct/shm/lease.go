//go:build linux

package shm

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// leases opens files that others may have a lease on (F_SETLEASE in fcntl(2)). An
// honest owner has one for a moment (posix.held), in which it may lose its CPU; one
// that is hostile has it for as long as the kernel lets it, and on any number of files.
// Whoever opens waits inside a round of progress, so the waits of a domain together are
// bounded: after a while they take hardly any time, and a file that has a lease cannot
// be opened then.
type leases struct {
	mu    sync.Mutex
	spent time.Duration // guarded by mu: on waits, as of at
	at    time.Duration // guarded by mu

	now   func() time.Duration // unless nil instead of the clock
	sleep func()               // unless nil instead of a wait
}

const (
	leaseLooks = 10                     // tries without a wait
	leaseWaits = 20                     // with one
	leaseMost  = 100 * time.Millisecond // of waits at once
	leaseShare = 100                    // of any longer time, the part that may be spent on waits
)

// open opens a file to read and write.
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

// wait lets others have the CPU, if there may be one more wait.
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

// loaded is when the program started, about.
var loaded = time.Now()

func (l *leases) time() time.Duration {
	if l.now != nil {
		return l.now()
	}
	return sinceLoaded()
}

func sinceLoaded() time.Duration { return time.Since(loaded) }
