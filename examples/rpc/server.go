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

// A method handles a call. It must not keep the arguments.
type method func(ctx context.Context, args []byte) ([]byte, error)

var methods = map[string]method{"upper": upper, "fill": fill, "wait": wait}

// upper returns its arguments in capitals.
func upper(_ context.Context, args []byte) ([]byte, error) { return bytes.ToUpper(args), nil }

// fill returns a result whose length is the number in the arguments.
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

// wait waits until the caller's deadline and returns the error of ctx.
func wait(ctx context.Context, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// server answers calls on several goroutines that share a worker.
type server struct {
	shared
	listener *ucp.Listener
	calls    *ucp.AMQueue
	limit    time.Duration // for each step of a call
}

const (
	handlers  = 16 // calls that are answered at the same time
	timeLimit = 10 * time.Second
)

// newServer returns a server that listens at an address.
func newServer(addr netip.AddrPort) (*server, error) {
	// With Closed, only accepted clients can call, and their endpoints belong to this program,
	// which may close them.
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

// accepted is called with the endpoint to each client. The endpoint is closed when the client
// disconnects.
func accepted(ep *ucp.Endpoint) {
	ep.SetErrorHandler(func(ep *ucp.Endpoint, _ error, _ any) { ep.Close() })
}

func (s *server) addr() netip.AddrPort { return s.listener.Addr() }

// run answers calls until ctx ends, and returns an error of the goroutines that handle calls, if
// any. These goroutines also progress the worker while they wait for calls.
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

// handle answers calls one after another.
func (s *server) handle(ctx context.Context) error {
	for m, err := range s.calls.All(ctx) {
		if err != nil {
			return err
		}
		if err := s.answer(ctx, m); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "rpc:", err) // an error of one client
		}
	}
	return nil
}

// answer answers a call. It disconnects a caller whose arguments cannot be received, or that does
// not take the result in time.
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
		return disconnect(caller, err)
	}
	result, err := s.call(ctx, h, args)
	if err != nil {
		result = []byte(err.Error())
	}
	if err := s.send(ctx, caller, answerHeader{h.call, statusOf(err)}, result); err != nil {
		return disconnect(caller, err)
	}
	return nil
}

// disconnect disconnects a client because of an error. It returns no error if the client has left before.
func disconnect(client *ucp.Endpoint, err error) error {
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

// call runs the method that h names. The method's time limit is the time until the caller's
// deadline, and at most s.limit.
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
