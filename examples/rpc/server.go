package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// A method answers calls. It does not keep the arguments.
type method func(ctx context.Context, args []byte) ([]byte, error)

var methods = map[string]method{"upper": upper, "fill": fill, "wait": wait}

// upper returns its arguments in capitals.
func upper(_ context.Context, args []byte) ([]byte, error) { return bytes.ToUpper(args), nil }

// fill returns as many bytes as its arguments, a number, say.
func fill(_ context.Context, args []byte) ([]byte, error) {
	if len(args) != 8 {
		return nil, fmt.Errorf("fill takes a number of 8 bytes, not %d", len(args))
	}
	n := binary.LittleEndian.Uint64(args)
	if n > longest {
		return nil, fmt.Errorf("%d bytes are more than %d", n, longest)
	}
	return bytes.Repeat([]byte{filler}, int(n)), nil
}

const filler = 0xA5

// wait does nothing until the caller's deadline.
func wait(ctx context.Context, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// server answers calls by goroutines that share a worker.
type server struct {
	shared
	listener *ucp.Listener
	calls    *ucp.AMQueue
	limit    time.Duration // for each step of a call
}

const (
	handlers  = 16 // calls that are answered at once
	timeLimit = 10 * time.Second
)

// newServer returns a server that listens.
func newServer(addr netip.AddrPort) (*server, error) {
	// Closed: whoever calls was accepted, and his endpoint is ours, to close.
	w, err := open(ucp.WorkerParams{Closed: true})
	if err != nil {
		return nil, err
	}
	s := &server{shared: w, limit: timeLimit}
	if s.calls, err = w.worker.NewAMQueue(ucp.AMQueueParams{ID: idCall, Offers: true}); err == nil {
		s.listener, err = w.worker.NewListener(ucp.ListenerParams{Addr: addr, OnAccept: accepted})
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// accepted is given the endpoint to each client. It lasts until the client leaves.
func accepted(ep *ucp.Endpoint) {
	ep.SetErrorHandler(func(ep *ucp.Endpoint, _ error, _ any) { ep.Close() })
}

func (s *server) addr() netip.AddrPort { return s.listener.Addr() }

// run answers until ctx ends, and returns its error. Waiting for calls is what moves the
// worker.
func (s *server) run(ctx context.Context) error {
	ended := make(chan error)
	for range handlers {
		go func() { ended <- s.handle(ctx) }()
	}
	var err error
	for range handlers {
		err = <-ended
	}
	return err
}

// handle answers one call after the other.
func (s *server) handle(ctx context.Context) error {
	for m, err := range s.calls.All(ctx) {
		if err != nil {
			return err
		}
		if err := s.answer(ctx, m); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "rpc:", err) // it is of one client
		}
	}
	return nil
}

// answer answers a call. Who has sent it is parted with if he does not give the arguments
// that he has offered, or take the result, in time.
func (s *server) answer(ctx context.Context, m *ucp.AMMessage) error {
	caller := m.Reply()
	if caller == nil {
		return errors.New("a call that cannot be answered")
	}
	h, err := parseCall(m.Header())
	if err != nil {
		return err
	}
	args, err := s.receive(ctx, m)
	if err != nil {
		return part(caller, err)
	}
	result, err := s.call(ctx, h, args)
	if err != nil {
		result = []byte(err.Error())
	}
	if err := s.send(ctx, caller, answerHeader{h.call, statusOf(err)}, result); err != nil {
		return part(caller, err)
	}
	return nil
}

// part parts with a client because of an error. That he has left by himself is none.
func part(client *ucp.Endpoint, err error) error {
	if client.Err() != nil {
		return nil
	}
	return errors.Join(err, client.Close())
}

func (s *server) receive(ctx context.Context, m *ucp.AMMessage) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, s.limit)
	defer stop()
	return receive(ctx, m)
}

// call calls a method, which has as long as its caller waits.
func (s *server) call(ctx context.Context, h callHeader, args []byte) ([]byte, error) {
	f := methods[h.method]
	if f == nil {
		return nil, fmt.Errorf("no method %q", h.method)
	}
	limit := s.limit
	if h.limit > 0 {
		limit = min(limit, h.limit)
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	return f(ctx, args)
}

func (s *server) send(ctx context.Context, caller *ucp.Endpoint, h answerHeader, result []byte) error {
	ctx, stop := context.WithTimeout(ctx, s.limit)
	defer stop()
	return caller.AMSendWait(ctx, idAnswer, h.bytes(), result, 0)
}
