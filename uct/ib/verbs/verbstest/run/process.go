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

// ended closes all that an ended process had open.
func (m *Machine) ended(p *process) {
	for id, d := range m.devices {
		if d.owner == p {
			m.close(id)
		}
	}
	delete(m.processes, p.number)
	unix.Close(p.fd)
}

// executed closes the devices of processes that have executed another program.
func (m *Machine) executed() {
	for id, d := range m.devices {
		if d.mem.Gone() {
			m.close(id)
		}
	}
}
