package ucptest

import (
	"context"
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// A program whose poller sleeps on the event descriptor, while goroutines of it
// progress the same worker.

// TestTogetherPoller: what others have taken from the event set wakes the poller all
// the same, until it has armed again.
func TestTogetherPoller(t *testing.T) {
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
				b.Stats()      // has had its turn when the round is over that the message came in
				for range 10 { // by somebody who does not sleep on the descriptor
					b.Progress()
				}
				if !readable(t, b.fd, 0) {
					t.Fatal("the progress of another goroutine has taken the event from the poller")
				}
			}
		})
	}
}

// TestTogetherSignal: a signal wakes the poller, and those in Wait.
func TestTogetherSignal(t *testing.T) {
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
			default: // it was not waiting yet
				runtime.Gosched()
			}
		}
	}
}

// leads has a goroutine progress the worker until the function that it returns is
// called.
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
