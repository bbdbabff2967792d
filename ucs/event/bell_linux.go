//go:build !simulate

package event

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
)

// Bell is a member of a Set that any goroutine can make ready (Ring), to wake the goroutine that
// polls the Set or sleeps on it. It stays ready until Clear.
type Bell struct {
	set   *Set
	fd    int           // an eventfd
	rings atomic.Uint32 // orders memory: what a goroutine wrote before Ring is seen after Clear
}

// NewBell adds a bell to a set. Each Set.Poll that finds it ready calls h with Read.
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
	b.rings.Add(1)
	if e := sys.Count(b.fd); e != 0 && e != unix.EAGAIN { // EAGAIN: the eventfd's count is at its maximum, so it is readable
		return fmt.Errorf("event: eventfd write: %w", e)
	}
	return nil
}

// Clear makes the bell not ready until the next Ring.
func (b *Bell) Clear() {
	sys.Reset(b.fd)
	b.rings.Load()
}

// Close removes the bell from the set, which may already be closed. Only the goroutine that uses
// the set may call it.
func (b *Bell) Close() error {
	_ = b.set.Remove(b.fd)
	return unix.Close(b.fd)
}
