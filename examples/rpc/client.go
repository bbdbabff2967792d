package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// client calls a server, from any number of goroutines.
type client struct {
	shared
	ep      *ucp.Endpoint
	answers *ucp.AMQueue
	lost    context.Context // canceled when the connection ends; its cause is the error
	fail    context.CancelCauseFunc
	over    chan struct{} // closed when the goroutine that takes answers has ended

	mu    sync.Mutex
	last  uint64                    // number of the last call
	calls map[uint64]chan<- *answer // waiting calls, by number
}

// answer is an answer that has arrived. The call that receives it must consume its message.
type answer struct {
	answerHeader
	*ucp.AMMessage
}

// dial connects to the server at an address. If there is no server the calls return the error.
func dial(addr netip.AddrPort) (*client, error) {
	w, err := open(ucp.WorkerParams{})
	if err != nil {
		return nil, err
	}
	c := &client{shared: w, over: make(chan struct{}), calls: make(map[uint64]chan<- *answer)}
	c.lost, c.fail = context.WithCancelCause(context.Background())
	if c.answers, err = w.worker.NewAMQueue(ucp.AMQueueParams{ID: idAnswer, Offers: true}); err == nil {
		c.ep, err = w.worker.NewEndpoint(ucp.EndpointParams{
			RemoteAddr: addr,
			ErrMode:    ucp.ErrModePeer,
			OnError:    func(_ *ucp.Endpoint, err error, _ any) { c.fail(err) },
		})
	}
	if err != nil {
		w.close()
		return nil, err
	}
	go c.take()
	return c, nil
}

// close ends the connection. No call may be running.
func (c *client) close(ctx context.Context) error {
	err := c.ep.Shutdown(ctx)
	c.fail(errClosed)
	<-c.over
	c.shared.close()
	return err
}

var errClosed = errors.New("the client is closed")

// call calls a method of the server. The deadline of ctx is sent with the call. After an error args
// must not be changed, because the library may still be sending them.
func (c *client) call(ctx context.Context, method string, args []byte) ([]byte, error) {
	h := callHeader{method: method}
	if deadline, ok := ctx.Deadline(); ok {
		if h.limit = time.Until(deadline); h.limit <= 0 {
			return nil, context.DeadlineExceeded
		}
	}
	answered := make(chan *answer, 1)
	h.call = c.begin(answered)
	defer c.end(h.call, answered)
	if err := c.ep.AMSendWait(ctx, idCall, h.bytes(), args, ucp.AMSendReply); err != nil {
		return nil, err
	}
	select {
	case a := <-answered:
		result, err := receive(ctx, a.AMMessage)
		if err != nil {
			return nil, err
		}
		return result, a.status.err(result)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.lost.Done():
		return nil, context.Cause(c.lost)
	}
}

// begin registers a call and returns its number. Its answer is sent to the channel.
func (c *client) begin(answered chan<- *answer) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.calls[c.last] = answered
	return c.last
}

// end removes a call. It releases an answer that the call has not taken.
func (c *client) end(call uint64, answered <-chan *answer) {
	c.mu.Lock()
	delete(c.calls, call)
	c.mu.Unlock()
	select {
	case a := <-answered:
		a.Release()
	default:
	}
}

// take receives answers until the connection ends, and passes each to its call. The wait for
// answers progresses the worker.
func (c *client) take() {
	defer close(c.over)
	for {
		m, err := c.answers.Next(c.lost)
		if err != nil {
			return
		}
		h, err := parseAnswer(m.Header())
		if err != nil || !c.give(&answer{h, m}) {
			m.Release()
		}
	}
}

// give passes an answer to its call, and reports whether the call was still waiting.
func (c *client) give(a *answer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	answered := c.calls[a.call]
	if answered == nil {
		return false
	}
	delete(c.calls, a.call) // a second answer has no receiver
	answered <- a
	return true
}

// runClient connects to a server and demonstrates calls.
func runClient(ctx context.Context, server string, callers, calls int) error {
	addr, err := netip.ParseAddrPort(server)
	if err != nil {
		return fmt.Errorf("-connect %q: %w", server, err)
	}
	c, err := dial(addr)
	if err != nil {
		return err
	}
	if err := c.show(ctx, callers, calls); err != nil {
		return errors.Join(err, c.close(ctx))
	}
	return c.close(ctx)
}
