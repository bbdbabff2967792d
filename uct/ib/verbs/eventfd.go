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

// eventFD is a descriptor that records can be read from, one at a time, without
// keeping a thread.
type eventFD struct {
	turn chan struct{} // one reader at a time: full while there is one
	fd   atomic.Int64  // -1 once it is closed: the number may become another's
	f    *os.File
	raw  syscall.RawConn // of f

	// What try needs is there for all its calls, for it to allocate nothing.
	mu     sync.Mutex
	record [maxRecord]byte  // under mu
	want   int              // under mu: bytes of a record
	n      int              // under mu: those that were read
	err    error            // under mu
	take   func(fd uintptr) // reads a record; mu is held
}

// maxRecord is room for a record of any kind.
const maxRecord = 64

// newEventFD takes over a descriptor of the kernel.
func newEventFD(fd int, name string) (*eventFD, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("verbs: %s: %w: %w", name, err, ucs.ErrIO)
	}
	e := &eventFD{turn: make(chan struct{}, 1), f: os.NewFile(uintptr(fd), name)}
	e.fd.Store(int64(fd))
	e.take = e.takeOne
	var err error
	if e.raw, err = e.f.SyscallConn(); err != nil {
		return nil, errors.Join(e.failed(0, nil, err), e.f.Close())
	}
	return e, nil
}

// number is the descriptor.
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

// read waits for one record.
func (e *eventFD) read(ctx context.Context, b []byte) error {
	if ctx.Err() != nil {
		return waitCanceled(ctx)
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return waitCanceled(ctx)
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		e.f.SetReadDeadline(time.Unix(1, 0)) // long ago
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

// try reads a record if there is one. Readers that wait do not hold it up.
func (e *eventFD) try(b []byte) (ok bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.want = len(b)
	if e.raw.Control(e.take) != nil {
		e.err = os.ErrClosed // nothing else can be wrong
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

// takeOne reads a record into e.record.
func (e *eventFD) takeOne(fd uintptr) {
	for {
		if e.n, e.err = unix.Read(int(fd), e.record[:e.want]); e.err != unix.EINTR {
			return
		}
	}
}

// failed says what went wrong when n bytes were read into b, nil if nothing has.
func (e *eventFD) failed(n int, b []byte, err error) error {
	switch {
	case err == nil && n == len(b):
		return nil
	case errors.Is(err, os.ErrClosed):
		return fmt.Errorf("verbs: %s: closed: %w: %w", e.f.Name(), err, ucs.ErrCanceled)
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("verbs: %s: the device is gone: %w: %w", e.f.Name(), err, ucs.ErrNoDevice)
	case err == nil:
		err = fmt.Errorf("%d bytes of %d", n, len(b))
	}
	return fmt.Errorf("verbs: %s: %w: %w", e.f.Name(), err, ucs.ErrIO)
}
