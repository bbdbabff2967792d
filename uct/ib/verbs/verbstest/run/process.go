//go:build linux && (amd64 || arm64)

package run

import "golang.org/x/sys/unix"

// process is a process that has, or had, a device open. The loop watches it until it ends.
type process struct {
	number int
	fd     int // pidfd: readable when the process has ended
}

// watch returns the process of a caller, and makes the loop wait for its end. It returns nil if the
// process is gone.
func (m *Machine) watch(c *caller) *process {
	number := c.process()
	if p := m.processes[number]; p != nil {
		return p
	}
	fd, err := unix.PidfdOpen(number, 0)
	if err != nil {
		return nil
	}
	if !m.valid(c.id) || m.await(fd) != nil { // while the thread waits for an answer, its process keeps the number
		unix.Close(fd)
		return nil
	}
	p := &process{number, fd}
	m.processes[number] = p
	return p
}

// await adds a descriptor to those that the loop waits on.
func (m *Machine) await(fd int) error {
	return unix.EpollCtl(m.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}
