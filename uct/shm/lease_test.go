//go:build linux

package shm

import (
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/internal/host"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// leased returns a file of this process with a lease that makes every other open wait.
func leased(t *testing.T) (fd int) {
	t.Helper()
	path := "/dev/shm/ucx_lease_test_" + strconv.Itoa(os.Getpid())
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Unlink(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, 1<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(unix.SIGURG)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestLeasedFile: a peer holds a lease on the file that it names as its memory. However often the
// key is unpacked, a domain spends a bounded share of its time waiting for the lease.
func TestLeasedFile(t *testing.T) {
	ucttest.NoLeaks(t)
	fd := leased(t)
	var clock time.Duration
	waits := 0
	m := &posix{link: true, dir: defaultDir, lease: leases{
		now:   func() time.Duration { return clock },
		sleep: func() { clock += time.Millisecond; waits++ },
	}}
	d := openDomain(component{posixName}, m)
	key := appendPosixKey(nil, procID(os.Getpid(), fd, host.Namespace{}), 1<<40, 1<<20, nil)
	try := func(n int) {
		for range n {
			_, err := d.UnpackRkey(key)
			ucttest.WantStatus(t, "key of a file with a lease", err, ucs.ErrUnreachable)
		}
	}
	try(1)
	if waits == 0 || waits > leaseWaits {
		t.Errorf("%d waits for one file", waits)
	}
	try(100)
	if spent := time.Duration(waits) * time.Millisecond; spent > leaseMost+leaseMost/10 {
		t.Errorf("waited for %v", spent)
	}
	waits, clock = 0, clock+time.Second
	try(100)
	if spent := time.Duration(waits) * time.Millisecond; spent == 0 || spent > time.Second/leaseShare+5*time.Millisecond {
		t.Errorf("waited for %v a second later", spent)
	}
	// The domain waits for a lease that is given up soon.
	clock += time.Hour
	m.lease.sleep = func() {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
			t.Error(err)
		}
	}
	k, err := d.UnpackRkey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.ReleaseRkey(k); err != nil {
		t.Error(err)
	}
}
