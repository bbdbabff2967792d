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

// client measures over one path.
type client struct {
	worker   *ucp.Worker
	endpoint *ucp.Endpoint
	duration time.Duration // of one measurement, at least
}

var sizes = []int{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 4 << 20}

// measurePath starts a server and prints the table of one path.
func measurePath(ctx context.Context, path string, duration time.Duration) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	peer := exec.CommandContext(ctx, program, "-serve", path)
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
			peer.Wait() // says no more than that it was killed
			return
		}
		err = peer.Wait()
	}()

	context, w, err := open(path)
	if err != nil {
		return err
	}
	defer context.Close()
	defer w.Close()
	ep, err := connect(w, out, in)
	if err != nil {
		return err
	}
	c := client{w, ep, duration}
	t := newTable(path)
	for _, size := range sizes {
		t.busy(size)
		r, err := c.measure(ctx, size)
		if err != nil {
			return err
		}
		t.row(r)
	}
	// No flush of the endpoint after this: the server may be gone by then.
	return c.send(ctx, order{pattern: finish})
}

// result is one row of the table.
type result struct {
	size    int
	latency time.Duration // one way
	rate    float64       // messages per second, in a stream
}

// measure takes both measurements of one size.
func (c client) measure(ctx context.Context, size int) (result, error) {
	roundTrip, err := c.repeat(ctx, order{pattern: pingPong, size: size}, c.bounce)
	if err != nil {
		return result{}, err
	}
	each, err := c.repeat(ctx, order{pattern: stream, size: size}, c.flood)
	if err != nil {
		return result{}, err
	}
	return result{size, roundTrip / 2, float64(time.Second) / float64(max(each, 1))}, nil
}

// repeat runs an exchange with more and more messages until it takes long
// enough, and returns the time for one message.
func (c client) repeat(ctx context.Context, o order, run func(context.Context, order) error) (time.Duration, error) {
	for o.count = 4; ; o.count *= 2 {
		if err := c.send(ctx, o); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := run(ctx, o); err != nil {
			return 0, err
		}
		if elapsed := time.Since(start); elapsed >= c.duration {
			return elapsed / time.Duration(o.count), nil
		}
	}
}

// send tells the server what comes next.
func (c client) send(ctx context.Context, o order) error {
	return c.endpoint.Send(ctx, tagOrder, o.bytes())
}

// bounce sends messages one by one, each when the one before has come back, and
// checks what came back last.
func (c client) bounce(ctx context.Context, o order) error {
	message, back := make([]byte, o.size), make([]byte, o.size)
	for i := range message {
		message[i] = byte(i*7 + o.count)
	}
	for range o.count {
		if err := c.endpoint.Send(ctx, tagData, message); err != nil {
			return err
		}
		if _, err := c.worker.Recv(ctx, tagEcho, ucp.FullMask, back); err != nil {
			return err
		}
	}
	if !bytes.Equal(message, back) {
		return fmt.Errorf("a message of %d bytes came back changed", o.size)
	}
	return nil
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
	_, err := c.worker.Recv(ctx, tagEcho, ucp.FullMask, nil)
	return err
}
