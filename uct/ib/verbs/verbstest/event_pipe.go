//go:build linux

package verbstest

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// eventPipe is a pipe that passes event records to the program, which reads them from a descriptor.
// Fabric.mu guards it.
type eventPipe struct {
	user int // the user's descriptor
	in   int // write end of the pipe
	look int // read end for withdrawing records that the user has not read
	size int // bytes of a record
}

// newEventPipe makes a mailbox for records of size bytes.
func (f *file) newEventPipe(size int) (*eventPipe, syscall.Errno) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, syscall.EMFILE
	}
	unix.SetNonblock(p[1], true)
	m := &eventPipe{user: p[0], in: p[1], size: size}
	var err error
	// Opened again, so that O_NONBLOCK does not affect the user's descriptor.
	if m.look, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", p[0]), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return nil, syscall.EMFILE
	}
	f.eventPipes = append(f.eventPipes, m)
	return m, 0
}

// put writes a record, and reports whether there was room. Events are lost if the user reads too
// slowly, as in C.
func (m *eventPipe) put(record []byte) bool {
	n, err := unix.Write(m.in, record)
	return err == nil && n == len(record)
}

// withdraw removes the unread records for which the parameter of returns true, and returns their
// number.
func (m *eventPipe) withdraw(of func(record []byte) bool) (n uint32) {
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

// close closes the mailbox, except the user's descriptor.
func (m *eventPipe) close() {
	unix.Close(m.in)
	unix.Close(m.look)
}

// updateQuiet sets f.quiet, which makes Write ignore doorbells. Doorbells are ignored in mode InStep,
// because each step finds the work requests without a doorbell. They are not ignored if the file is
// unusable or a failure of Write is pending. The caller holds Fabric.mu.
func (f *file) updateQuiet() {
	f.quiet.Store(f.k.net.sched.work == InStep && !f.closed && !f.dead && !f.k.removed && !f.k.faults.has("write"))
}

// updateQuiet calls file.updateQuiet for all open files of the device.
func (k *Kernel) updateQuiet() {
	for _, f := range k.files {
		f.updateQuiet()
	}
}
