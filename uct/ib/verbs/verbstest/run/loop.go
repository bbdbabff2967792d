//go:build linux && (amd64 || arm64)

package run

import "golang.org/x/sys/unix"

// The loop answers calls and hears of the end of processes, one at a time.

// open makes what the loop waits for.
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

// loop is the goroutine that answers. It ends when there is nobody left who could call,
// or when it is told to.
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
			default: // nobody is under the filter any longer
				return
			}
		}
	}
}

// endedBy is told by which descriptor the end of a process was heard of.
func (m *Machine) endedBy(fd int) {
	for _, p := range m.processes {
		if p.fd == fd {
			m.ended(p)
			return
		}
	}
}

// clear closes everything that is open.
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
		return // who made it is gone
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
