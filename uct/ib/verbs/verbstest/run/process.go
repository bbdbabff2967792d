//go:build linux && (amd64 || arm64)

package run

import "golang.org/x/sys/unix"

// process is one that has, or had, a device open. It is watched until it ends.
type process struct {
	number int
	fd     int // pidfd_open(2): readable when it has ended
}

// watch is the process of a caller; nil if it is gone.
func (m *Machine) watch(c *caller) *process {
	number := c.process()
	if p := m.processes[number]; p != nil {
		return p
	}
	fd, err := unix.PidfdOpen(number, 0)
	if err != nil {
		return nil
	}
	if !m.valid(c.id) || m.await(fd) != nil { // as long as a thread waits for us the number is its process's
		unix.Close(fd)
		return nil
	}
	p := &process{number, fd}
	m.processes[number] = p
	return p
}

// await has the loop hear of a descriptor.
func (m *Machine) await(fd int) error {
	return unix.EpollCtl(m.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}
