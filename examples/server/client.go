package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// client asks a server, by many goroutines.
type client struct {
	shared
	ep *ucp.Endpoint
	n  int // the server's number for it
}

// runClient asks the server of an address so many requests, and says how long that took.
func runClient(ctx context.Context, address string, clients, requests int) error {
	w, err := open()
	if err != nil {
		return err
	}
	defer w.close()
	c := &client{shared: w}
	if err := c.connect(ctx, address); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	start := time.Now()
	over := make(chan error)
	for k := range clients {
		go func() { over <- c.ask(ctx, k, requests) }()
	}
	for range clients {
		if e := <-over; e != nil && err == nil {
			err = e
			stop() // the others need not go on
		}
	}
	if err != nil {
		return err
	}
	elapsed := time.Since(start)
	fmt.Printf("%d goroutines had %d answers each in %v: %.0f a second\n",
		clients, requests, elapsed.Round(time.Millisecond), float64(clients*requests)/elapsed.Seconds())
	return c.ep.Shutdown(ctx)
}

// connect says hello.
func (c *client) connect(ctx context.Context, address string) error {
	addr, err := hex.DecodeString(address)
	if err != nil {
		return fmt.Errorf("-connect %q: %w", address, err)
	}
	if c.ep, err = c.NewEndpoint(ucp.EndpointParams{Address: addr, ErrMode: ucp.ErrModePeer}); err != nil {
		return err
	}
	own, err := c.Address(0)
	if err != nil {
		return err
	}
	if err := c.ep.TagSendWait(ctx, hello, own); err != nil {
		return err
	}
	info, err := c.TagRecvWait(ctx, welcome, kindMask, nil)
	c.n = clientOf(info.SenderTag)
	return err
}

// ask sends requests, one after the other, and checks the answers.
func (c *client) ask(ctx context.Context, k, requests int) error {
	buf := make([]byte, longestRequest)
	for i := range requests {
		text := fmt.Sprintf("request %d of goroutine %d", i, k)
		if err := c.ep.TagSendWait(ctx, tagOf(request, c.n, k), []byte(text)); err != nil {
			return err
		}
		info, err := c.TagRecvWait(ctx, tagOf(answer, c.n, k), ucp.FullMask, buf)
		if err != nil {
			return err
		}
		if got := string(buf[:info.Length]); got != strings.ToUpper(text) {
			return fmt.Errorf("asked %q, the answer was %q", text, got)
		}
	}
	return nil
}
