//go:build linux

package ucptest

import (
	"context"
	"errors"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// driver progresses a worker until ctx ends and the worker is signaled.
type driver func(ctx context.Context, s *side) error

// drivers are the means by which a worker is progressed besides the goroutines that wait on it.
var drivers = []struct {
	name string
	list []driver
}{
	{"waiters", nil},
	{"run", []driver{driveRun}},
	{"pollers", []driver{drivePoll, drivePoll, drivePoll}},
	{"outside", []driver{driveOutside}},
	{"all", []driver{driveRun, drivePoll, driveOutside, driveEvents}},
}

// driveRun is in Run all the time.
func driveRun(ctx context.Context, s *side) error {
	if err := s.Run(ctx); err != context.Canceled {
		return err
	}
	return nil
}

// drivePoll calls Progress all the time.
func drivePoll(ctx context.Context, s *side) error {
	for ctx.Err() == nil {
		if s.Progress() == 0 {
			runtime.Gosched()
		}
	}
	return nil
}

// driveOutside sleeps on the event descriptor.
func driveOutside(ctx context.Context, s *side) error {
	fd, err := s.EventFD()
	if err != nil {
		return err
	}
	for {
		for s.Progress() > 0 {
		}
		switch err := s.Arm(); {
		case errors.Is(err, ucs.ErrBusy):
			runtime.Gosched()
			continue
		case err != nil:
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != nil && err != unix.EINTR {
			return err
		}
	}
}

// driveEvents waits for events with Wait.
func driveEvents(ctx context.Context, s *side) error {
	for ctx.Err() == nil {
		for s.Progress() > 0 {
		}
		if err := s.Wait(ctx); err != nil && err != context.Canceled {
			return err
		}
	}
	return nil
}
