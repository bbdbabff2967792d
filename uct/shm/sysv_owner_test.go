//go:build linux

package shm

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct/internal/host"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// nobody is a user other than the user of the test.
const nobody = 65534

// asUser runs f on a thread with another user, if the kernel permits it. The thread ends with its
// goroutine. The first thread of the process would not end, so f does not run there: other
// processes take the user of that thread for that of the process.
func asUser(uid int, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			asUser(uid, f) // on another thread, as this goroutine occupies the first one
			runtime.UnlockOSThread()
			return
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e == 0 {
			f()
		}
	}()
	<-done
}

// TestSegmentOfAnotherUser checks that a segment is refused whose id names this process but which
// another user created.
func TestSegmentOfAnotherUser(t *testing.T) {
	needtest.Capability(t, "CAP_IPC_OWNER", "to look at a segment of another user")
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
	} else if !strings.Contains(err.Error(), "created by user 65534") {
		t.Errorf("got %v", err)
	}
}

// TestUsersAllowed: memory of a user that is not in UCX_SHM_ALLOW is not mapped, even if the kernel
// permits it, whether a segment, a file or a descriptor of a process of that user names it.
func TestUsersAllowed(t *testing.T) {
	needtest.Capability(t, "CAP_SETUID", "to make a segment as another user")
	for _, c := range []struct {
		name string
		m    func(u host.Users) mapper
	}{
		{sysvName, func(u host.Users) mapper { return &sysv{users: u} }},
		{posixName, func(u host.Users) mapper { return &posix{link: true, dir: defaultDir, pid: os.Getpid(), users: u} }},
		{"names", func(u host.Users) mapper { return &posix{dir: defaultDir, pid: os.Getpid(), users: u} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			noSegments(t)
			var s *segment
			maker := c.m(host.Users{})
			asUser(nobody, func() { s, _ = maker.create(segmentOptions{size: pageSize}) })
			if s == nil {
				needtest.Right(t, "a segment of another user")
				return
			}
			defer maker.destroy(s)
			for allow, ok := range map[string]bool{"all": c.name != sysvName, "self": false, "self,65534": c.name != sysvName} {
				var u host.Users
				if err := u.ParseConfig(allow); err != nil {
					t.Fatal(err)
				}
				d := openDomain(component{posixName}, c.m(u))
				a, err := d.attached.attach(reference{id: s.id}, 0)
				if ok != (err == nil) || err != nil && !errors.Is(err, ucs.ErrUnreachable) {
					t.Errorf("UCX_SHM_ALLOW=%s: %v", allow, err)
				}
				if c.name != sysvName && err != nil && !strings.Contains(err.Error(), "user 65534 is not in UCX_SHM_ALLOW") {
					t.Errorf("UCX_SHM_ALLOW=%s: %v", allow, err)
				}
				if err == nil {
					d.attached.release(a)
				}
			}
		})
	}
	t.Run("descriptor", func(t *testing.T) { // a file of this user, of another's process
		needtest.Capability(t, "CAP_SYS_PTRACE", "to open what another user's process has open")
		m := &posix{link: true, dir: defaultDir, pid: os.Getpid()}
		s, err := m.create(segmentOptions{size: pageSize})
		if err != nil {
			t.Fatal(err)
		}
		defer m.destroy(s)
		dup, err := unix.Dup(s.fd)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(dup), "")
		cmd := exec.Command("cat")
		cmd.ExtraFiles = []*os.File{file}
		cmd.SysProcAttr = &unix.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: unix.SIGKILL}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			needtest.Right(t, "a process of another user")
		}
		defer cmd.Wait()
		defer in.Close()
		file.Close()
		ref := reference{id: procID(cmd.Process.Pid, 3, host.Namespace{})}
		for allow, want := range map[string]string{"all": "", "self": "user 65534 is not in UCX_SHM_ALLOW"} {
			var u host.Users
			if err := u.ParseConfig(allow); err != nil {
				t.Fatal(err)
			}
			o, err := (&posix{link: true, dir: defaultDir, users: u}).open(ref, 0)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("UCX_SHM_ALLOW=%s: %v", allow, err)
			}
			if err == nil {
				m.close(o)
			}
		}
	})
	var set config.Set
	if err := set.Modify("SHM_ALLOW", "65534"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{posixName, sysvName} {
		_, err := component{name}.OpenMD(name, &set)
		ucttest.WantStatus(t, "a domain for others alone", err, ucs.ErrUnsupported)
	}
}

// setTime sets a time field of the kernel, whose size depends on the architecture.
func setTime[T int64 | uint32](field *T, to time.Time) { *field = T(to.Unix()) }

// TestSegmentOfAnEarlierProcess checks that a segment is refused that was created before the
// process started that its id names.
func TestSegmentOfAnEarlierProcess(t *testing.T) {
	peer := startPeer(t, sysvName)
	pid := peer.cmd.Process.Pid
	d := unix.SysvShmDesc{Cpid: int32(pid)}
	setTime(&d.Ctime, time.Now())
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
