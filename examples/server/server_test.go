package main

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// opened returns a server that is closed when the test ends.
func opened(t *testing.T) (*server, string) {
	t.Helper()
	s, addr, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s, addr
}

// TestServer: clients have their answers, one after the other, and the server keeps
// nothing of who has left.
func TestServer(t *testing.T) {
	for _, tls := range []string{"posix", "tcp"} {
		t.Run(tls, func(t *testing.T) {
			t.Setenv("UCX_TLS", tls)
			t.Setenv("UCX_KEEPALIVE_INTERVAL", "1ms") // nothing else tells of who leaves shared memory
			s, addr := opened(t)
			serving, stop := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() {
				defer close(over)
				s.run(serving, 3)
			}()
			const clients = 3
			for range clients {
				if err := runClient(t.Context(), addr, 5, 20); err != nil {
					t.Error(err)
				}
			}
			for n := 0; n < clients; {
				if s.client(n) == nil {
					n++
				}
				runtime.Gosched()
			}
			stop()
			<-over
		})
	}
}

// TestClientThatDoesNotRead: who takes no answer is parted with.
func TestClientThatDoesNotRead(t *testing.T) {
	t.Setenv("UCX_TLS", "posix")
	t.Setenv("UCX_RNDV_THRESH", "10") // so that an answer waits for its receiver
	s, addr := opened(t)
	t.Setenv("UCX_RNDV_THRESH", "inf")
	w, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	greeted := make(chan error)
	go func() { greeted <- s.greet(t.Context()) }()
	c := &client{shared: w}
	if err := errors.Join(c.connect(t.Context(), addr), <-greeted); err != nil {
		t.Fatal(err)
	}
	if s.client(c.n) == nil {
		t.Fatal("the server does not know the client")
	}
	if err := c.ep.TagSendWait(t.Context(), tagOf(request, c.n, 0), []byte(strings.Repeat("x", 100))); err != nil {
		t.Fatal(err)
	}
	s.limit = time.Millisecond
	if err := s.handle(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want %v", err, context.DeadlineExceeded)
	}
	if s.client(c.n) != nil {
		t.Error("the server keeps the client")
	}
}

// TestErrorThatStays: an error that stays is told once, and does not end the server.
func TestErrorThatStays(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	errs := []error{errStranger, errStranger, nil, errStranger, context.DeadlineExceeded, errStranger}
	var told []error
	step := func(context.Context) (err error) {
		if len(errs) == 0 {
			stop()
			return errStranger
		}
		err, errs = errs[0], errs[1:]
		return err
	}
	repeat(ctx, step, func(err error) { told = append(told, err) })
	if want := []error{errStranger, context.DeadlineExceeded, errStranger}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}
