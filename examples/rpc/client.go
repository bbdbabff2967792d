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
	lost    context.Context // ends with the connection, and tells why
	fail    context.CancelCauseFunc
	over    chan struct{} // closed when nobody takes answers any more

	mu    sync.Mutex
	last  uint64                    // number of a call
	calls map[uint64]chan<- *answer // that wait, by number
}

// answer is one that has arrived. The message is the caller's.
type answer struct {
	answerHeader
	*ucp.AMMessage
}

// dial connects to the server at an address. That nobody is there the calls will tell.
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

// call calls a method of the server. The deadline of ctx goes along. After an error the
// arguments must be left as they are: they may still be on their way.
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

// begin gives a number to a call.
func (c *client) begin(answered chan<- *answer) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.calls[c.last] = answered
	return c.last
}

// end forgets a call. An answer that nobody has waited for is given up.
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

// take takes answers until the connection ends, and gives each to whoever has called.
// Waiting for them is what moves the worker.
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

// give reports whether somebody waits for an answer.
func (c *client) give(a *answer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	answered := c.calls[a.call]
	if answered == nil {
		return false
	}
	delete(c.calls, a.call) // a second one is for nobody
	answered <- a
	return true
}

// runClient shows what calls are like.
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
