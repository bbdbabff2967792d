package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// client talks to a server in another process.
type client struct {
	worker   *ucp.Worker
	endpoint *ucp.Endpoint
}

// measurePair starts a server and prints the table of one path.
func measurePair(ctx context.Context, p path, t *table, duration time.Duration) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	peer := exec.CommandContext(ctx, program, "-serve", p.name)
	peer.Stderr = os.Stderr
	in, err := peer.StdinPipe()
	if err != nil {
		return err
	}
	out, err := peer.StdoutPipe()
	if err != nil {
		return err
	}
	if err := peer.Start(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			peer.Process.Kill()
			peer.Wait() // the error only says that the process was killed
			return
		}
		err = peer.Wait()
	}()

	context, w, err := p.open()
	if err != nil {
		return err
	}
	defer context.Close()
	defer w.Close()
	ep, err := connect(w, out, in)
	if err != nil {
		return err
	}
	c := client{w, ep}
	if err := t.fill(ctx, c, duration); err != nil {
		return err
	}
	// No flush of the endpoint after this: the server may be gone by then.
	return c.begin(ctx, order{pattern: finish})
}

// begin sends an order to the server.
func (c client) begin(ctx context.Context, o order) error {
	return c.endpoint.TagSendWait(ctx, tagOrder, o.bytes())
}

// bounce sends messages one by one, each after the reply to the message before, and checks the last
// reply.
func (c client) bounce(ctx context.Context, o order) (int, error) {
	message, back := newMessage(o), make([]byte, o.size)
	for range o.count {
		if err := c.endpoint.TagSendWait(ctx, tagData, message); err != nil {
			return 0, err
		}
		if _, err := c.worker.TagRecvWait(ctx, tagEcho, ucp.FullMask, back); err != nil {
			return 0, err
		}
	}
	if !bytes.Equal(message, back) {
		return 0, fmt.Errorf("a message of %d bytes came back changed", o.size)
	}
	return 2 * o.count, nil
}

// flood sends messages with a window of them in flight.
func (c client) flood(ctx context.Context, o order) error {
	message := make([]byte, o.size)
	requests := make(ring, window(o.size))
	for i := range o.count {
		err := requests.put(ctx, i, func(int) (*ucp.Request, error) {
			return c.endpoint.TagSend(tagData, message, nil)
		})
		if err != nil {
			return err
		}
	}
	if err := requests.drain(ctx); err != nil {
		return err
	}
	_, err := c.worker.TagRecvWait(ctx, tagEcho, ucp.FullMask, nil)
	return err
}
