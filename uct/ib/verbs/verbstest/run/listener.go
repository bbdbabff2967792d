//go:build linux && (amd64 || arm64)

package run

import (
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// ioctl requests on the filter's listener, linux/seccomp.h.
const (
	notifReceive = 0xc0502100
	notifSend    = 0xc0182101
	notifValid   = 0x40082102
	notifAddFD   = 0x40182103
)

// spawner executes the functions of the channel do on a thread that is under a filter, so that the
// programs that they start are under the filter too. It first sends the listener to ready. When do
// is closed, the goroutine and its thread end.
func spawner(filter []unix.SockFilter, do <-chan func(), ready chan<- listening) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread outlives its goroutine. While this goroutine occupies it, a new goroutine
		// gets another thread.
		locked := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(locked)
			underFilter(filter, do, ready)
		}()
		<-locked
		runtime.UnlockOSThread()
		return
	}
	underFilter(filter, do, ready)
}

type listening struct {
	fd  int
	err error
}

func underFilter(filter []unix.SockFilter, do <-chan func(), ready chan<- listening) {
	// Without no_new_privs only root may install a filter.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		ready <- listening{err: fmt.Errorf("run: no_new_privs: %w: %w", err, ucs.ErrUnsupported)}
		return
	}
	fd, errno := install(filter)
	if errno != 0 {
		ready <- listening{err: fmt.Errorf("run: seccomp with a listener, which needs Linux 5.19 and may be forbidden in a container: %w: %w", errno, ucs.ErrUnsupported)}
		return
	}
	ready <- listening{fd: fd}
	for f := range do {
		f()
	}
}

// receive waits for a call that the filter has caught. It fails with ENOENT if the calling thread
// is gone.
func (m *Machine) receive(n *notification) syscall.Errno {
	*n = notification{}
	_, errno := listen(m.listener, notifReceive, n)
	return errno
}

// valid reports whether the calling thread still waits for the answer. If not, the number of the
// thread may already belong to another thread.
func (m *Machine) valid(id uint64) bool {
	_, errno := listen(m.listener, notifValid, &id)
	return errno == 0
}

// send answers a call. It reports whether the answer has been delivered.
func (m *Machine) send(id uint64, r reply) bool {
	a := response{ID: id, Value: r.value, Error: -int32(r.errno)}
	if r.pass {
		a.Flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	}
	if r.handed != nil {
		// Two requests are needed: the combined request (SECCOMP_ADDFD_FLAG_SEND) answers with a
		// descriptor of 0 if a signal interrupts it (seccomp_notify_addfd, kernel/seccomp.c).
		n, errno := m.hand(id, r.handed)
		a.Value, a.Error = int64(n), 0
		switch errno {
		case 0:
		case unix.ENOENT:
			return false
		default: // EBADF: the number exceeds the process's limit
			a.Value, a.Error = 0, -int32(unix.EMFILE)
		}
	}
	_, errno := listen(m.listener, notifSend, &a)
	return errno == 0 && a.Error == -int32(r.errno)
}

// hand gives a duplicate of a descriptor to the process of the calling thread, and returns its
// number there.
func (m *Machine) hand(id uint64, h *givenFD) (int, syscall.Errno) {
	a := addFD{ID: id, Source: uint32(h.fd)}
	if h.number != 0 {
		a.Flags = unix.SECCOMP_ADDFD_FLAG_SETFD
		a.Number = uint32(h.number)
	}
	if h.cloexec {
		a.NumberedFlags = unix.O_CLOEXEC
	}
	return listen(m.listener, notifAddFD, &a)
}
