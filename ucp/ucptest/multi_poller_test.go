//go:build linux

package ucptest

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// A program whose poller sleeps on the event descriptor while other goroutines progress the same
// worker.

// TestMultiPoller checks that events that other goroutines consume still wake the poller, until it
// arms the worker again.
func TestMultiPoller(t *testing.T) {
	for _, name := range []string{"self", "posix", "tcp", "sim"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, byName(t, name).shared())
			a, b := r.pair()
			ep := a.connect(b)
			r.warm(ep, b)
			stop := b.leads()
			defer stop()
			for range 20 {
				recv := r.started(b.TagRecv(1, ucp.FullMask, make([]byte, 16), nil))
				b.arm()
				send, err := ep.TagSend(1, message(1), nil)
				if err != nil {
					t.Fatal(err)
				}
				a.alone(send)
				if !readable(t, b.fd, longEnough) {
					t.Fatal("a message came, and the poller sleeps on")
				}
				r.must(send, nil)
				r.must(recv, nil)
				b.Stats()      // waits for the round that received the message
				for range 10 { // by a goroutine other than the poller
					b.Progress()
				}
				if !readable(t, b.fd, 0) {
					t.Fatal("the progress of another goroutine has taken the event from the poller")
				}
			}
		})
	}
}

// TestMultiPollerClosed checks that a poller that sleeps on the descriptor when the worker is
// closed is woken, and that Arm reports the close.
func TestMultiPollerClosed(t *testing.T) {
	for _, rung := range []bool{false, true} {
		r := newRig(t, byName(t, "self").shared())
		a := r.open()
		ep := a.connect(a)
		fd := a.fd
		a.arm()
		if rung {
			r.inTheCall(ep.TagSend(1, nil, nil))
		}
		closed := make(chan error)
		go func() { closed <- a.Worker.Close() }()
		if !readable(t, fd, longEnough) {
			t.Error("the worker was closed, and the poller sleeps on")
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if !readable(t, fd, 0) {
			t.Error("the worker was closed, and the poller that looks now sleeps")
		}
		for range 2 {
			if err := a.Arm(); !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("arming a closed worker: %v", err)
			}
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("the poller has come back, and the descriptor is open: %v", err)
		}
	}
}

// TestMultiSignal checks that a signal wakes the poller, and goroutines in Wait.
func TestMultiSignal(t *testing.T) {
	r := newRig(t, byName(t, "posix").shared())
	a := r.open()
	stop := a.leads()
	defer stop()
	for range 100 {
		waited := make(chan error)
		for range 2 {
			go func() { waited <- a.Wait(t.Context()) }()
		}
		a.arm()
		woken := 0
		for woken < 2 {
			if err := a.Signal(); err != nil {
				t.Fatal(err)
			}
			if !readable(t, a.fd, longEnough) {
				t.Fatal("a signal came, and the poller sleeps on")
			}
			select {
			case err := <-waited:
				if err != nil {
					t.Fatal(err)
				}
				woken++
			default: // no goroutine was waiting yet
				runtime.Gosched()
			}
		}
	}
}

// TestMultiSignalOrders checks, under the race detector, that what a goroutine writes before Signal is seen by
// one that has waited, with and without a round of progress in between.
func TestMultiSignalOrders(t *testing.T) {
	for _, progresses := range []bool{true, false} {
		r := newRig(t, byName(t, "posix").shared())
		a := r.open()
		written := 0
		go func() {
			written = 1
			if err := a.Signal(); err != nil {
				t.Error(err)
			}
		}()
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if progresses {
			a.Progress()
		}
		if written != 1 {
			t.Error("a goroutine that was woken does not see what was written before")
		}
	}
}

// leads has a goroutine progress the worker until stop is called.
func (s *side) leads() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error)
	go func() { over <- s.Run(ctx) }()
	return func() {
		s.rig.Helper()
		cancel()
		if err := <-over; err != context.Canceled {
			s.rig.Errorf("run: %v", err)
		}
	}
}
