package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/ucx-go/ucx/ucp"
)

// server answers requests with their text in capitals.
type server struct {
	shared
	mu      sync.RWMutex
	clients []*ucp.Endpoint // by number
}

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
	return &server{shared: w}, hex.EncodeToString(addr), nil
}

// run answers until ctx ends.
func (s *server) run(ctx context.Context, handlers int) error {
	loops := []func(context.Context) error{s.greet}
	for range handlers {
		loops = append(loops, s.handle)
	}
	over := make(chan error)
	for _, loop := range loops {
		go func() {
			for {
				if err := loop(ctx); ctx.Err() != nil {
					over <- nil
					return
				} else if err != nil { // of one client: the others go on
					fmt.Fprintln(os.Stderr, "server:", err)
				}
			}
		}()
	}
	for range loops {
		<-over
	}
	return nil
}

// greet makes the endpoint to a new client.
func (s *server) greet(ctx context.Context) error {
	buf := make([]byte, longestAddress)
	info, err := s.TagRecvWait(ctx, hello, ucp.FullMask, buf)
	if err != nil {
		return err
	}
	ep, err := s.NewEndpoint(ucp.EndpointParams{Address: buf[:info.Length], ErrMode: ucp.ErrModePeer})
	if err != nil {
		return err
	}
	s.mu.Lock()
	n := len(s.clients)
	s.clients = append(s.clients, ep)
	s.mu.Unlock()
	return ep.TagSendWait(ctx, tagOf(welcome, n, 0), nil)
}

// client returns the endpoint to a client, nil if there is none of this number.
func (s *server) client(n int) *ucp.Endpoint {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n >= len(s.clients) {
		return nil
	}
	return s.clients[n]
}

var errStranger = errors.New("a request of nobody who said hello")

// handle answers a request.
func (s *server) handle(ctx context.Context) error {
	buf := make([]byte, longestRequest)
	info, err := s.TagRecvWait(ctx, request, kindMask, buf)
	if err != nil {
		return err
	}
	ep := s.client(clientOf(info.SenderTag))
	if ep == nil {
		return errStranger
	}
	return ep.TagSendWait(ctx, answer|info.SenderTag&^kindMask, bytes.ToUpper(buf[:info.Length]))
}
