//go:build linux

package shm

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

var _ uct.SenderFinder = (*iface)(nil)

// FindSenders implements uct.SenderFinder: whoever sends has the ring attached. If
// nobody has, nothing is added to it any more, and what is in it decides. A ring
// that was replaced is not read any more, so its senders do not count.
func (i *iface) FindSenders() (bool, error) {
	if i.dead {
		return false, nil
	}
	if held, err := i.domain.m.held(i.rx.seg); held || err != nil {
		return true, err
	}
	return i.unread(), nil
}

// unread reports whether something in the ring has not been received.
func (i *iface) unread() bool {
	if i.fenced {
		defer fault.End(fault.Begin(), i, nil, nil)
	}
	return i.rx.claimed() != 0
}

// held compares the number of attachments with the one of the owner. An endpoint
// of this process has one of its own.
func (m *sysv) held(s *segment) (bool, error) {
	var d unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(int(s.id), unix.IPC_STAT, &d); err != nil {
		return true, errShm("querying", s.id, err)
	}
	return d.Nattch > 1, nil
}

// held asks for a lease, which the kernel grants only if nobody else has opened
// the file to write, and gives it back. A mapping counts as long as it is there,
// whoever has it and in whatever namespace. Whoever opens the file in between waits
// or tries again (leases.open).
//
// Opening a file counts, and memfd_create(2) does not open one: its lease is asked
// for by a descriptor to read. Who got the descriptor itself is not counted; no
// peer does.
func (m *posix) held(s *segment) (bool, error) {
	fd, lease := s.fd, unix.F_WRLCK
	if !s.shrink {
		var err error
		fd, err = unix.Open("/proc/self/fd/"+strconv.Itoa(s.fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return true, fmt.Errorf("shm: opening the local ring: %w: %w", sys.WithLimit(err), ucs.ErrIO)
		}
		defer unix.Close(fd)
		lease = unix.F_RDLCK
	}
	// Who opens the file meanwhile makes the kernel send a signal: not SIGIO, which
	// ends programs whose signals Go does not handle, but one that nobody minds.
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(unix.SIGURG))
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, lease)
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		return true, nil
	case err != nil:
		return true, fmt.Errorf("shm: fcntl(F_SETLEASE) of the local ring: %w: %w", err, ucs.ErrUnsupported)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		return true, fmt.Errorf("shm: fcntl(F_SETLEASE, F_UNLCK) of the local ring: %w: %w", err, ucs.ErrIO)
	}
	return false, nil
}
