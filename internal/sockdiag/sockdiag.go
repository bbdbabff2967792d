//go:build linux

package sockdiag

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Socket is what the kernel knows of a socket.
type Socket struct {
	Inode uint64 // what /proc/PID/fd shows, not 0
	UID   int    // of its owner, in the user namespace of this process
}

// Errors of Peer and Listener. All others are the kernel's. Those that are Transient say
// nothing; the rest mean the same as ErrUnsupported: nothing is known.
var (
	// ErrNotFound: there is no such socket, or nobody holds it any more.
	ErrNotFound = errors.New("sockdiag: no such socket")

	// ErrUnsupported: the kernel does not answer such questions.
	ErrUnsupported = errors.New("sockdiag: not supported here")

	// ErrForeign: the owner has no number in the user namespace of this process.
	ErrForeign = errors.New("sockdiag: the owner is not mapped into this user namespace")
)

// Transient reports whether an error says that the kernel could not answer for want of
// something, and may the next time.
func Transient(err error) bool {
	if err == nil {
		return false
	}
	var e unix.Errno
	if !errors.As(err, &e) {
		return false
	}
	switch e {
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EINTR, unix.EAGAIN:
		return true
	}
	return false
}

// answered is set when the kernel has found a socket. Without its modules for TCP
// it gives the error that also stands for a socket that is not there.
var answered atomic.Bool

// Asker is a way to ask. Its zero value is ready: it opens what it needs with the
// first question. One goroutine at a time may use it.
type Asker struct {
	fd   int
	open bool
}

// Close gives the descriptor back.
func (a *Asker) Close() {
	if a.open {
		a.open = false
		unix.Close(a.fd)
	}
}

// Peer returns the other end of a connection of this process, both ends of which
// are in this network namespace. The addresses are those of the own end.
func (a *Asker) Peer(local, remote netip.AddrPort) (Socket, error) {
	m, err := a.ask(remote, local)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return Socket{}, a.missing(local, remote)
		}
		return Socket{}, err
	}
	local, remote = plain(local), plain(remote)
	if m.local != remote || m.remote != local || !m.connected() {
		return Socket{}, ErrNotFound
	}
	return m.socket()
}

// Listener returns the socket that takes the connections to an address, which may
// be bound to all addresses.
func (a *Asker) Listener(at netip.AddrPort) (Socket, error) {
	any := netip.IPv4Unspecified()
	if at.Addr().Unmap().Is6() {
		any = netip.IPv6Unspecified()
	}
	m, err := a.ask(at, netip.AddrPortFrom(any, 0))
	switch {
	case errors.Is(err, unix.ENOENT) && !answered.Load():
		return Socket{}, ErrUnsupported
	case errors.Is(err, unix.ENOENT):
		return Socket{}, ErrNotFound
	case err != nil:
		return Socket{}, err
	case m.state != stateListen || m.local.Port() != at.Port():
		return Socket{}, ErrNotFound
	}
	return m.socket()
}

// missing finds out what it means that the kernel knows no other end: it must know
// ours.
func (a *Asker) missing(local, remote netip.AddrPort) error {
	if !answered.Load() {
		if _, err := a.ask(local, remote); Transient(err) {
			return err
		} else if err != nil {
			return ErrUnsupported
		}
	}
	return ErrNotFound
}

// socket is what the caller gets to know. A socket that no process holds has no
// inode, and in some releases the user 0.
func (m *message) socket() (Socket, error) {
	switch {
	case m.inode == 0:
		return Socket{}, ErrNotFound
	case foreign(m.uid):
		return Socket{}, ErrForeign
	}
	return Socket{Inode: uint64(m.inode), UID: int(m.uid)}, nil
}

func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// device is the number of the device that addresses of one link are of, 0 if they have
// no zone. A zone is the number of a device here, never its name.
func device(local, remote netip.AddrPort) uint32 {
	for _, a := range []netip.AddrPort{local, remote} {
		zone := a.Addr().Zone()
		if zone == "" {
			continue
		}
		if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
			return uint32(n)
		}
	}
	return 0
}

// ask asks for the one TCP socket with these addresses.
func (a *Asker) ask(local, remote netip.AddrPort) (*message, error) {
	dev := device(local, remote)
	local, remote = plain(local), plain(remote)
	if !local.IsValid() || !remote.IsValid() || local.Addr().Is6() != remote.Addr().Is6() {
		return nil, fmt.Errorf("sockdiag: %v to %v: %w", local, remote, unix.EINVAL)
	}
	if !a.open {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_SOCK_DIAG)
		if err != nil {
			return nil, fmt.Errorf("sockdiag: %w", err)
		}
		// Who is connected with the kernel gets nothing from anybody else.
		if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("sockdiag: %w", err)
		}
		a.fd, a.open = fd, true
	}
	m, err := exchange(a.fd, local, remote, dev)
	var e unix.Errno
	if err != nil && (!errors.As(err, &e) || e != unix.ENOENT) {
		a.Close() // who knows what is still in it
	}
	return m, err
}

// exchange makes one request.
func exchange(fd int, local, remote netip.AddrPort, dev uint32) (*message, error) {
	var request [requestLen]byte
	if _, err := unix.Write(fd, appendRequest(request[:0], local, remote, dev)); err != nil {
		return nil, fmt.Errorf("sockdiag: %w", err)
	}
	// The kernel has answered when the request returns.
	var answer [maxAnswer]byte
	n, err := unix.Read(fd, answer[:])
	if err != nil {
		return nil, fmt.Errorf("sockdiag: %w", err)
	}
	m, err := parse(answer[:n])
	if err != nil {
		return nil, fmt.Errorf("sockdiag: %w", err)
	}
	answered.Store(true)
	return m, nil
}
