package main

import (
	"context"
	"os"

	"github.com/ucx-go/ucx/ucp"
)

// server answers one client.
type server struct {
	worker   *ucp.Worker
	endpoint *ucp.Endpoint
}

// runServer serves the process that started this one.
func runServer(ctx context.Context, name string) error {
	found, err := paths()
	if err != nil {
		return err
	}
	p, err := find(found, name)
	if err != nil {
		return err
	}
	c, w, err := p.open()
	if err != nil {
		return err
	}
	defer c.Close()
	defer w.Close()
	ep, err := connect(w, os.Stdin, os.Stdout)
	if err != nil {
		return err
	}
	s := server{w, ep}
	for {
		o, err := s.order(ctx)
		if err != nil {
			return err
		}
		switch o.pattern {
		case pingPong:
			err = s.echo(ctx, o)
		case stream:
			err = s.sink(ctx, o)
		case finish:
			return nil // closing the worker closes the endpoint
		}
		if err != nil {
			return err
		}
	}
}

// order waits for the next order.
func (s server) order(ctx context.Context) (order, error) {
	var b [orderSize]byte
	info, err := s.worker.TagRecvWait(ctx, tagOrder, ucp.FullMask, b[:])
	if err != nil {
		return order{}, err
	}
	return parseOrder(b[:info.Length])
}

// echo sends every message back.
func (s server) echo(ctx context.Context, o order) error {
	buf := make([]byte, o.size)
	for range o.count {
		info, err := s.worker.TagRecvWait(ctx, tagData, ucp.FullMask, buf)
		if err != nil {
			return err
		}
		if err := s.endpoint.TagSendWait(ctx, tagEcho, buf[:info.Length]); err != nil {
			return err
		}
	}
	return nil
}

// sink receives all messages, with a window of receives posted ahead, and then notifies the client.
func (s server) sink(ctx context.Context, o order) error {
	requests := make(ring, window(o.size))
	buf := make([]byte, len(requests)*o.size)
	for i := range o.count {
		err := requests.put(ctx, i, func(slot int) (*ucp.Request, error) {
			return s.worker.TagRecv(tagData, ucp.FullMask, buf[slot*o.size:][:o.size], nil)
		})
		if err != nil {
			return err
		}
	}
	if err := requests.drain(ctx); err != nil {
		return err
	}
	return s.endpoint.TagSendWait(ctx, tagEcho, nil)
}
