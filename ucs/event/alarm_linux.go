//go:build !simulate

package event

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
)

// alarm is a timerfd in a Set, which makes the set ready at a given time.
type alarm struct{ fd int }

func (a *alarm) open(set *Set, h Handler) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("event: timerfd_create: %w", sys.WithLimit(err))
	}
	if err := set.Add(fd, Read, h); err != nil {
		unix.Close(fd)
		return err
	}
	a.fd = fd
	return nil
}

// set makes the descriptor readable after d, which must be positive, because zero would disarm the
// timer.
func (a *alarm) set(d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(a.fd, 0, &spec, nil); err != nil {
		return fmt.Errorf("event: timerfd_settime: %w", err)
	}
	return nil
}

// clear makes the descriptor unreadable.
func (a *alarm) clear() {
	// The count of expiries does not matter. The read fails if the timer was set again after it
	// expired.
	sys.Reset(a.fd)
}

func (a *alarm) close(set *Set) error {
	err := set.Remove(a.fd)
	unix.Close(a.fd)
	return err
}
