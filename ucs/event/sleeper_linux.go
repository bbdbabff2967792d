//go:build !simulate

package event

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
)

// Sleeper lets a goroutine wait for a Set in Go's poller, where a wait occupies no thread. One
// goroutine at a time may sleep, while any other polls the set. A set may have several sleepers.
type Sleeper struct {
	file *os.File // a duplicate of the set's descriptor
	raw  syscall.RawConn
}

// NewSleeper returns a Sleeper that waits for a set.
func NewSleeper(set *Set) (*Sleeper, error) {
	fd, err := unix.FcntlInt(uintptr(set.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("event: dup of the set's descriptor: %w", sys.WithLimit(err))
	}
	// os.NewFile registers only nonblocking descriptors with Go's poller.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("event: the set's descriptor: %w", err)
	}
	s := &Sleeper{file: os.NewFile(uintptr(fd), "events")}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		s.file.Close()
		return nil, err
	}
	return s, nil
}

// Sleep waits until something in the set may be ready, and returns nil. It returns the error of ctx
// when ctx ends, or os.ErrClosed when the sleeper is closed. It does not call handlers.
func (s *Sleeper) Sleep(ctx context.Context) error {
	if ctx.Done() != nil {
		ended := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			s.file.SetReadDeadline(time.Unix(1, 0))
			close(ended)
		})
		defer func() {
			if !stop() {
				<-ended // otherwise the function could set the deadline after it is cleared here
				s.file.SetReadDeadline(time.Time{})
			}
		}()
	}
	// Go's poller is edge-triggered, so the set itself is polled before the wait. After the wait
	// the call returns without polling again.
	asked := false
	err := s.raw.Read(func(fd uintptr) bool {
		if asked {
			return true
		}
		asked = true
		return sys.Readable(int(fd))
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil: // the poller's error, which has no exported name
		return os.ErrClosed
	}
	return nil
}

// Close closes the sleeper, and wakes the sleeping goroutine. Any goroutine may call it.
func (s *Sleeper) Close() error { return s.file.Close() }
