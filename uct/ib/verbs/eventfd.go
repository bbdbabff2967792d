//go:build linux

package verbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// eventFD is a descriptor of the kernel from which event records are read, one at a time. A reader
// that waits does not occupy a thread.
type eventFD struct {
	readSem chan struct{} // semaphore: full while a goroutine is in the method read
	fd      atomic.Int64  // -1 once closed, because the number may then belong to another file
	f       *os.File
	raw     syscall.RawConn // raw connection of f

	// State of the method try, kept from call to call so that try allocates nothing.
	mu     sync.Mutex
	record [maxRecord]byte  // under mu
	want   int              // under mu: bytes to read
	n      int              // under mu: bytes that were read
	err    error            // under mu: error of the read
	take   func(fd uintptr) // the method takeOne, called with mu held
}

// maxRecord is at least the size of any event record, in bytes.
const maxRecord = 64

// newEventFD takes ownership of fd, a descriptor from the kernel, and closes it if an error occurs.
func newEventFD(fd int, name string) (*eventFD, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("verbs: %s: %w: %w", name, err, ucs.ErrIO)
	}
	e := &eventFD{readSem: make(chan struct{}, 1), f: os.NewFile(uintptr(fd), name)}
	e.fd.Store(int64(fd))
	e.take = e.takeOne
	var err error
	if e.raw, err = e.f.SyscallConn(); err != nil {
		return nil, errors.Join(e.failed(0, nil, err), e.f.Close())
	}
	return e, nil
}

// number returns the number of the descriptor, -1 once it is closed.
func (e *eventFD) number() int { return int(e.fd.Load()) }

func (e *eventFD) close() error {
	if e == nil {
		return nil
	}
	e.fd.Store(-1)
	err := e.f.Close()
	if errors.Is(err, os.ErrClosed) {
		return errClosed
	}
	return err
}

// read waits for one record and reads it into b. It returns early when ctx ends.
func (e *eventFD) read(ctx context.Context, b []byte) error {
	if ctx.Err() != nil {
		return waitCanceled(ctx)
	}
	select {
	case e.readSem <- struct{}{}:
		defer func() { <-e.readSem }()
	case <-ctx.Done():
		return waitCanceled(ctx)
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		e.f.SetReadDeadline(time.Unix(1, 0)) // in the past: Read returns
		close(over)
	})
	n, err := e.f.Read(b)
	if !stop() {
		<-over
		e.f.SetReadDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return waitCanceled(ctx)
	}
	return e.failed(n, b, err)
}

// try reads a record into b if there is one, else it returns false without an error. It does not
// wait for a goroutine that is in the method read.
func (e *eventFD) try(b []byte) (ok bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.want = len(b)
	if e.raw.Control(e.take) != nil {
		e.err = os.ErrClosed // Control has no other error
	}
	if e.err == unix.EAGAIN {
		return false, nil
	}
	if err := e.failed(e.n, b, e.err); err != nil {
		return false, err
	}
	copy(b, e.record[:])
	return true, nil
}

// takeOne reads a record into e.record without waiting, and sets e.n and e.err.
func (e *eventFD) takeOne(fd uintptr) {
	for {
		if e.n, e.err = unix.Read(int(fd), e.record[:e.want]); e.err != unix.EINTR {
			return
		}
	}
}

// failed returns the error of reading n bytes into b, nil if a whole record was read.
func (e *eventFD) failed(n int, b []byte, err error) error {
	switch {
	case err == nil && n == len(b):
		return nil
	case errors.Is(err, os.ErrClosed):
		return fmt.Errorf("verbs: %s: closed: %w: %w", e.f.Name(), err, ucs.ErrCanceled)
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("verbs: %s: the device was removed: %w: %w", e.f.Name(), err, ucs.ErrNoDevice)
	case err == nil:
		err = fmt.Errorf("%d bytes of %d", n, len(b))
	}
	return fmt.Errorf("verbs: %s: %w: %w", e.f.Name(), err, ucs.ErrIO)
}
