package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// loop is a worker that sends to itself.
type loop struct {
	worker   *ucp.Worker
	endpoint *ucp.Endpoint
}

// measureLoop prints the table of a path on which a worker sends to itself.
func measureLoop(ctx context.Context, p path, t *table, duration time.Duration) error {
	c, w, err := p.open()
	if err != nil {
		return err
	}
	defer c.Close()
	defer w.Close()
	own, err := w.Address(0)
	if err != nil {
		return err
	}
	ep, err := w.NewEndpoint(ucp.EndpointParams{Address: own})
	if err != nil {
		return err
	}
	return t.fill(ctx, loop{w, ep}, duration)
}

func (l loop) begin(context.Context, order) error { return nil }

// bounce sends messages one by one.
func (l loop) bounce(ctx context.Context, o order) (int, error) {
	message, back := newMessage(o), make([]byte, o.size)
	for range o.count {
		r, err := l.worker.TagRecv(tagData, ucp.FullMask, back, nil)
		if err != nil {
			return 0, err
		}
		if err := l.endpoint.TagSendWait(ctx, tagData, message); err != nil {
			return 0, err
		}
		if err := r.Wait(ctx); err != nil {
			return 0, err
		}
		r.Free()
	}
	if !bytes.Equal(message, back) {
		return 0, fmt.Errorf("a message of %d bytes arrived changed", o.size)
	}
	return o.count, nil
}

// flood sends messages with a window of them in flight.
func (l loop) flood(ctx context.Context, o order) error {
	message := newMessage(o)
	sends, receives := make(ring, window(o.size)), make(ring, window(o.size))
	space := make([]byte, len(receives)*o.size)
	for i := range o.count {
		err := receives.put(ctx, i, func(slot int) (*ucp.Request, error) {
			return l.worker.TagRecv(tagData, ucp.FullMask, space[slot*o.size:][:o.size], nil)
		})
		if err != nil {
			return err
		}
		err = sends.put(ctx, i, func(int) (*ucp.Request, error) {
			return l.endpoint.TagSend(tagData, message, nil)
		})
		if err != nil {
			return err
		}
	}
	if err := sends.drain(ctx); err != nil {
		return err
	}
	return receives.drain(ctx)
}
