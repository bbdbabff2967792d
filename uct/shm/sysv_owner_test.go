package shm

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// nobody is a user that is not that of the test.
const nobody = 65534

// asUser runs f on a thread of another user, if that is allowed. The thread ends with
// its goroutine; the first thread of the process never does, and is spared: others
// take its user for that of the process.
func asUser(uid int, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			asUser(uid, f) // while this goroutine occupies it
			runtime.UnlockOSThread()
			return
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e == 0 {
			f()
		}
	}()
	<-done
}

// TestSegmentOfAnotherUser: a segment has the number of this process, and somebody
// else's user made it.
func TestSegmentOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		needtest.Right(t, "root, to make a segment as another user")
	}
	noSegments(t)
	d := openDomain(component{sysvName}, &sysv{})
	var s *segment
	asUser(nobody, func() { s, _ = d.m.create(segmentOptions{size: pageSize}) })
	if s == nil {
		needtest.Right(t, "a segment of another user")
		return
	}
	defer d.m.destroy(s)
	a, err := d.attached.attach(reference{id: s.id}, os.Getpid())
	ucttest.WantStatus(t, "segment of another user", err, ucs.ErrUnreachable)
	if err == nil {
		d.attached.release(a)
	} else if !strings.Contains(err.Error(), "made by user 65534") {
		t.Errorf("got %v", err)
	}
}

// TestSegmentOfAnEarlierProcess: a segment has the number of a process that did not
// exist when it was made.
func TestSegmentOfAnEarlierProcess(t *testing.T) {
	peer := startPeer(t, sysvName)
	pid := peer.cmd.Process.Pid
	d := unix.SysvShmDesc{Cpid: int32(pid), Ctime: time.Now().Unix()}
	d.Perm.Cuid = uint32(os.Geteuid())
	if err := checkCreator(1, pid, &d); err != nil {
		t.Errorf("a segment that was made now: %v", err)
	}
	d.Ctime -= 3600
	err := checkCreator(1, pid, &d)
	ucttest.WantStatus(t, "a segment of an hour ago", err, ucs.ErrUnreachable)
	if err != nil && !strings.Contains(err.Error(), "before process") {
		t.Errorf("got %v", err)
	}
	peer.kill()
	d.Ctime += 3600
	ucttest.WantStatus(t, "a process that has ended", checkCreator(1, pid, &d), ucs.ErrUnreachable)
}
