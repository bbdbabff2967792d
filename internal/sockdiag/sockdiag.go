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

// Socket is what the kernel reports about a socket.
type Socket struct {
	Inode uint64 // the inode in the links of /proc/PID/fd, not 0
	UID   int    // the owner's uid in the user namespace of this process
}

// Errors of Peer and Listener. All other errors come from the kernel: a Transient error has no
// information about the socket, and the rest mean the same as ErrUnsupported.
var (
	// ErrNotFound says that there is no such socket, or that no process holds it any more.
	ErrNotFound = errors.New("sockdiag: no such socket")

	// ErrUnsupported says that the kernel does not answer such requests.
	ErrUnsupported = errors.New("sockdiag: not supported here")

	// ErrForeign says that the owner has no uid in the user namespace of this process.
	ErrForeign = errors.New("sockdiag: the owner is not mapped into this user namespace")
)

// Transient reports whether an error means that the kernel lacked resources to answer or was
// interrupted, and may answer the next time.
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

// answered is set once the kernel has found a socket. A kernel without the inet_diag modules for
// TCP returns the error that otherwise means that there is no such socket.
var answered atomic.Bool

// Asker sends requests to the kernel. Its zero value is ready: it opens its descriptor with the
// first request. One goroutine at a time may use it.
type Asker struct {
	fd   int
	open bool
}

// Close closes the descriptor.
func (a *Asker) Close() {
	if a.open {
		a.open = false
		unix.Close(a.fd)
	}
}

// Peer returns the socket at the other end of a connection of this process, both ends of which are
// in this network namespace. The addresses are those of this process's end.
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

// Listener returns the socket that accepts connections to an address; it may be bound to all
// addresses.
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

// missing returns the error for a peer socket that the kernel does not find. If it does not find
// this process's end either, it does not support such requests.
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

// socket converts the kernel's answer. A socket that no process holds has no inode, and the uid 0
// in some releases.
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

// device returns the index of the device of link-local addresses, 0 if they have no zone. The zone
// must be an index, not a device name.
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

// ask requests the one TCP socket with these addresses.
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
		// A connected socket receives messages from the kernel only.
		if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("sockdiag: %w", err)
		}
		a.fd, a.open = fd, true
	}
	m, err := exchange(a.fd, local, remote, dev)
	var e unix.Errno
	if err != nil && (!errors.As(err, &e) || e != unix.ENOENT) {
		a.Close() // unread answers may be left in the socket
	}
	return m, err
}

// exchange sends one request and reads the answer.
func exchange(fd int, local, remote netip.AddrPort, dev uint32) (*message, error) {
	var request [requestLen]byte
	if _, err := unix.Write(fd, appendRequest(request[:0], local, remote, dev)); err != nil {
		return nil, fmt.Errorf("sockdiag: %w", err)
	}
	// The kernel queues the answer before the write returns.
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
