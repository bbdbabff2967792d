// Server answers requests by goroutines that share one worker: each handler waits for a
// request, and answers it to whoever has sent it. The client's goroutines share a worker
// as well.
//
//	server [-handlers 8] [-clients 100] [-requests 1000]
//	server -serve                 in one process, which prints its address
//	server -connect ADDRESS       in another one, on this machine or elsewhere
//
// Without -serve and -connect one process is both, over the transports that UCX_TLS
// allows.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

func main() {
	handlers := flag.Int("handlers", 8, "goroutines that answer")
	clients := flag.Int("clients", 100, "goroutines that ask")
	requests := flag.Int("requests", 1000, "requests of each")
	serve := flag.Bool("serve", false, "be the server, until an interrupt")
	connect := flag.String("connect", "", "be the client of the server with this address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("%q: no arguments are known but the flags that -h lists", flag.Args())
	case *handlers < 1 || *clients < 1 || *requests < 1:
		err = fmt.Errorf("-handlers %d -clients %d -requests %d: at least 1 of each is needed", *handlers, *clients, *requests)
	case *serve && *connect != "":
		err = fmt.Errorf("-serve and -connect %s exclude each other", *connect)
	case *serve:
		err = runServer(ctx, *handlers)
	case *connect != "":
		err = runClient(ctx, *connect, *clients, *requests)
	default:
		err = runBoth(ctx, *handlers, *clients, *requests)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// runBoth is a server, and its client, with a worker each.
func runBoth(ctx context.Context, handlers, clients, requests int) error {
	s, addr, err := newServer()
	if err != nil {
		return err
	}
	defer s.close()
	serving, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.run(serving, handlers)
	}()
	err = runClient(ctx, addr, clients, requests)
	stop()
	<-over
	return err
}

// runServer answers until ctx ends.
func runServer(ctx context.Context, handlers int) error {
	s, addr, err := newServer()
	if err != nil {
		return err
	}
	defer s.close()
	fmt.Println(addr)
	s.run(ctx, handlers)
	return nil
}

// shared is a worker that any goroutine may use, and its context.
type shared struct {
	*ucp.Worker
	ctx *ucp.Context
}

func open() (shared, error) {
	c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag}, nil)
	if err != nil {
		return shared{}, err
	}
	w, err := c.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti})
	if err != nil {
		c.Close()
		return shared{}, err
	}
	return shared{w, c}, nil
}

func (s shared) close() {
	s.Close()
	s.ctx.Close()
}
