package event

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
)

// Bell lets other goroutines wake a goroutine that polls a Set or sleeps on it. Once rung,
// it is ready until it is cleared.
type Bell struct {
	set *Set
	fd  int // an eventfd
}

// NewBell adds a bell to a set. Each Poll that finds it rung calls its handler with Read.
func NewBell(set *Set, h Handler) (*Bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("event: eventfd: %w", sys.WithLimit(err))
	}
	if err := set.Add(fd, Read, h); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Bell{set: set, fd: fd}, nil
}

// Ring makes the bell ready. Any goroutine may call it, but not after Close.
func (b *Bell) Ring() error {
	one := [8]byte{1}
	_, err := unix.Write(b.fd, one[:])
	if err != nil && err != unix.EAGAIN { // EAGAIN: rung more often than fits, so it is readable
		return fmt.Errorf("event: eventfd write: %w", err)
	}
	return nil
}

// Clear makes the bell not ready until the next Ring.
func (b *Bell) Clear() {
	var count [8]byte
	unix.Read(b.fd, count[:]) // nothing, if somebody has cleared it already
}

// Close removes the bell from the set, which may already be closed. It belongs to the set's
// goroutine.
func (b *Bell) Close() error {
	_ = b.set.Remove(b.fd)
	return unix.Close(b.fd)
}
