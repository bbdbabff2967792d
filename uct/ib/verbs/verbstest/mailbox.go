//go:build linux

package verbstest

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// mailbox is where records of what has happened wait for the user, who reads them from a
// descriptor. Lock held.
type mailbox struct {
	user int // the descriptor, which is the user's
	in   int // to write to
	look int // to read what the user has not read
	size int // of a record
}

// newMailbox makes one for records of a size.
func (f *file) newMailbox(size int) (*mailbox, syscall.Errno) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, syscall.EMFILE
	}
	unix.SetNonblock(p[1], true)
	m := &mailbox{user: p[0], in: p[1], size: size}
	var err error
	// Opened again, so that the user's waits or does not, as he likes.
	if m.look, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", p[0]), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return nil, syscall.EMFILE
	}
	f.mailboxes = append(f.mailboxes, m)
	return m, 0
}

// put leaves a record, and reports whether there was room: as in C, a reader too slow loses
// events.
func (m *mailbox) put(record []byte) bool {
	n, err := unix.Write(m.in, record)
	return err == nil && n == len(record)
}

// withdraw takes records back that the user has not read, and counts them.
func (m *mailbox) withdraw(of func(record []byte) bool) (n uint32) {
	var others []byte
	for record := make([]byte, m.size); ; {
		if got, err := unix.Read(m.look, record); err != nil || got != m.size {
			break
		}
		if of(record) {
			n++
		} else {
			others = append(others, record...)
		}
	}
	for ; len(others) > 0; others = others[m.size:] {
		m.put(others[:m.size])
	}
	return n
}

// close leaves the user's end alone.
func (m *mailbox) close() {
	unix.Close(m.in)
	unix.Close(m.look)
}
