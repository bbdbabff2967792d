package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// server answers requests with their text in capitals.
type server struct {
	shared
	limit time.Duration // for an answer to be taken

	mu      sync.RWMutex
	clients map[int]*ucp.Endpoint // by number
	next    int                   // number, if it is free
}

// answerTime is how long a client may let its answers wait. It keeps a handler so long.
const answerTime = 10 * time.Second

// newServer returns a server and its address as text.
func newServer() (*server, string, error) {
	w, err := open()
	if err != nil {
		return nil, "", err
	}
	addr, err := w.Address(0)
	if err != nil {
		w.close()
		return nil, "", err
	}
	return &server{shared: w, limit: answerTime, clients: make(map[int]*ucp.Endpoint)}, hex.EncodeToString(addr), nil
}

// run answers until ctx ends.
func (s *server) run(ctx context.Context, handlers int) {
	var loops sync.WaitGroup
	start := func(step func(context.Context) error) {
		loops.Add(1)
		go func() {
			defer loops.Done()
			repeat(ctx, step, func(err error) { fmt.Fprintln(os.Stderr, "server:", err) })
		}()
	}
	start(s.greet)
	for range handlers {
		start(s.handle)
	}
	loops.Wait()
}

// repeat does something until ctx ends. Most errors are of one client, and the others go
// on; one that stays is told once and does not keep the CPU busy.
func repeat(ctx context.Context, step func(context.Context) error, tell func(error)) {
	told := ""
	for {
		err := step(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue
		}
		if text := err.Error(); text != told {
			told = text
			tell(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// greet makes the endpoint to a new client.
func (s *server) greet(ctx context.Context) error {
	buf := make([]byte, longestAddress)
	info, err := s.TagRecvWait(ctx, hello, ucp.FullMask, buf)
	if err != nil {
		return err
	}
	n := s.number()
	ep, err := s.NewEndpoint(ucp.EndpointParams{
		Address: buf[:info.Length],
		ErrMode: ucp.ErrModePeer,
		OnError: func(*ucp.Endpoint, error, any) { s.part(n) },
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.clients[n] = ep
	s.mu.Unlock()
	return s.send(ctx, n, tagOf(welcome, n, 0), nil)
}

// number returns one that no client has.
func (s *server) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.clients[s.next] != nil {
		s.next = (s.next + 1) % maxClients
	}
	n := s.next
	s.next = (s.next + 1) % maxClients
	return n
}

// client returns the endpoint to a client, nil if there is none of this number.
func (s *server) client(n int) *ucp.Endpoint {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.clients[n]
}

// part closes the endpoint to a client that has gone, or is to go.
func (s *server) part(n int) {
	s.mu.Lock()
	ep := s.clients[n]
	delete(s.clients, n)
	s.mu.Unlock()
	if ep != nil {
		ep.Close()
	}
}

var errStranger = errors.New("a request from a client that has not sent hello")

// handle answers a request.
func (s *server) handle(ctx context.Context) error {
	buf := make([]byte, longestRequest)
	info, err := s.TagRecvWait(ctx, request, kindMask, buf)
	if err != nil {
		return err
	}
	return s.send(ctx, clientOf(info.SenderTag), answer|info.SenderTag&^kindMask, bytes.ToUpper(buf[:info.Length]))
}

// send sends a message to a client, and parts with it if it cannot be sent in time.
func (s *server) send(ctx context.Context, n int, tag ucp.Tag, text []byte) error {
	ep := s.client(n)
	if ep == nil {
		return errStranger
	}
	ctx, stop := context.WithTimeout(ctx, s.limit)
	defer stop()
	err := ep.TagSendWait(ctx, tag, text)
	if err != nil {
		s.part(n)
	}
	return err
}
