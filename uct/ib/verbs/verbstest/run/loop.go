//go:build linux && (amd64 || arm64)

package run

import "golang.org/x/sys/unix"

// The loop answers system calls and handles the end of processes, one event at a time.

// open makes the descriptors that the loop waits on.
func (m *Machine) open() (err error) {
	if m.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if m.end, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err == nil {
		if err = m.await(m.end); err == nil {
			if err = m.await(m.listener); err == nil {
				return nil
			}
		}
		unix.Close(m.end)
	}
	unix.Close(m.epoll)
	return err
}

// loop is the goroutine that answers calls. It ends when no process is left under the filter, or
// when m.end is written.
func (m *Machine) loop() {
	defer close(m.over)
	defer m.clear()
	var events [16]unix.EpollEvent
	for {
		n, err := unix.EpollWait(m.epoll, events[:], -1)
		if err != nil && err != unix.EINTR {
			return
		}
		for _, e := range events[:max(n, 0)] {
			switch fd := int(e.Fd); {
			case fd == m.end:
				return
			case fd != m.listener:
				m.endedBy(fd)
			case e.Events&unix.EPOLLIN != 0:
				m.answer()
			default: // no process is left under the filter
				return
			}
		}
	}
}

// endedBy handles the end of the process with this pidfd.
func (m *Machine) endedBy(fd int) {
	for _, p := range m.processes {
		if p.fd == fd {
			m.ended(p)
			return
		}
	}
}

// clear closes all devices and processes.
func (m *Machine) clear() {
	for id := range m.devices {
		m.close(id)
	}
	for _, p := range m.processes {
		m.ended(p)
	}
}

// answer answers one call.
func (m *Machine) answer() {
	var n notification
	if m.receive(&n) != 0 {
		return // the calling thread is gone
	}
	c := &caller{m: m, id: n.ID, tid: int(n.PID)}
	defer c.done()
	r := pass
	if call, ok := calls[uint32(n.NR)]; ok && call.serve != nil {
		if call.when == always {
			m.executed()
		}
		r = call.serve(c, n.Args)
	}
	arrived := m.send(n.ID, r)
	if r.handed != nil && !r.handed.keep {
		unix.Close(r.handed.fd)
	}
	if !arrived && r.undo != nil {
		r.undo()
	}
}
