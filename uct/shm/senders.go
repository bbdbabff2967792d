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
)

// FindSenders implements uct.ProcessIface. Every sender has the ring attached. If no sender has it
// attached, no message is added any more, and the result is whether the ring holds messages that
// were not received. A ring that was replaced is not read any more, so its senders do not count.
func (i *iface) FindSenders() (bool, error) {
	if i.dead {
		return false, nil
	}
	if held, err := i.domain.m.held(i.rx.seg); held || err != nil {
		return true, err
	}
	return i.unread(), nil
}

// unread reports whether an element of the ring was claimed and has not been received.
func (i *iface) unread() bool {
	if i.fenced {
		defer fault.End(fault.Begin(), i, nil, nil)
	}
	return i.rx.claimed() != 0
}

// held reports whether the segment has more attachments than the one of its owner. An endpoint
// of this process has its own attachment.
func (m *sysv) held(s *segment) (bool, error) {
	var d unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(int(s.id), unix.IPC_STAT, &d); err != nil {
		return true, errShm("querying", s.id, err)
	}
	return d.Nattch > 1, nil
}

// held implements mapper: it requests a lease on the file from the kernel and gives the lease back.
// The kernel grants a lease only if nothing else has the file open for writing. A mapping counts as
// long as it exists, whichever process has it and in whatever namespace. A process that opens the
// file while the lease exists waits or tries again (leases.open).
//
// Only opens of a file count, and memfd_create(2) is not an open: for such a file the lease is
// requested with a descriptor for reading. A process that was passed the descriptor itself is not
// counted, but the descriptor is passed to no peer.
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
	// If a process opens the file meanwhile the kernel sends this process a signal. The
	// default is SIGIO, which ends programs whose signals Go does not handle; SIGURG is
	// harmless.
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
