package ucpnet

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// Listener is a net.Listener for connections of this package, and for streams of C UCX.
type Listener struct {
	hub    *hub
	ucp    *ucp.Listener
	config Config
	addr   *Addr
	accept patience

	mu      sync.Mutex
	greeted int     // clients whose connections are being made
	queue   []*Conn // that Accept has not returned
	closed  bool
}

var _ net.Listener = (*Listener)(nil)

// onRequest accepts a client, if there is room for one more. It runs inside progress.
func (l *Listener) onRequest(r *ucp.ConnRequest) {
	if !l.admit() {
		r.Reject()
		return
	}
	c := newConn(l.hub, l.config.Linger)
	p := ucp.EndpointParams{ConnRequest: r, ErrMode: r.ErrMode()}
	if r.ClientID() == Greeting {
		c.native, p.ClientID = true, Greeting
	}
	if err := c.attach(p); err != nil {
		l.admitted(nil)
		return
	}
	l.hub.retain()
	go l.greet(c)
}

// admit reports whether one more may come.
func (l *Listener) admit() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue)+l.greeted >= l.config.Backlog {
		l.queue = slices.DeleteFunc(l.queue, (*Conn).dropDead)
	}
	if l.closed || len(l.queue)+l.greeted >= l.config.Backlog {
		return false
	}
	l.greeted++
	return true
}

// greet waits until the connection is made, which takes some messages in either direction,
// whether or not anybody waits for it here.
func (l *Listener) greet(c *Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), greetTime)
	err := c.ep.ConnectWait(ctx)
	cancel()
	if err == nil || c.parted() {
		c.settle()
		if l.admitted(c) {
			return
		}
	}
	c.Close()
}

// greetTime is how long a client may take for that.
const greetTime = 10 * time.Second

// admitted puts a connection into the queue, or takes note that there is none. It reports
// whether it did.
func (l *Listener) admitted(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.greeted--
	if c == nil || l.closed {
		return false
	}
	l.queue = append(l.queue, c)
	l.accept.nudge()
	return true
}

// parted reports whether the peer has ended the connection in good order: it may have
// brought something.
func (c *Conn) parted() bool {
	err := c.failed.Load()
	return c.ended.Load() || !c.native && err != nil && orderly(*err)
}

// dropDead closes a connection that has failed before anybody had it.
func (c *Conn) dropDead() bool {
	if c.failed.Load() == nil || c.parted() {
		return false
	}
	c.Close()
	return true
}

// Accept waits for a connection. Those that have failed meanwhile are dropped.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptUCP()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptUCP is Accept for who wants the *Conn.
func (l *Listener) AcceptUCP() (*Conn, error) {
	for {
		ctx := l.accept.current()
		if err := spent(ctx); err != nil {
			return nil, l.opError("accept", err)
		}
		if c := l.next(); c != nil {
			return c, nil
		}
		if err := l.hub.w.Run(ctx); ctx.Err() == nil {
			return nil, l.opError("accept", err)
		}
	}
}

// next takes the next connection out of the queue, nil if there is none.
func (l *Listener) next() *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		c := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		if !c.dropDead() {
			return c
		}
	}
	return nil
}

// Addr returns the *Addr that the listener listens at.
func (l *Listener) Addr() net.Addr { return l.addr }

// SetDeadline sets when Accept gives up.
func (l *Listener) SetDeadline(t time.Time) error {
	if err := l.accept.setDeadline(t); err != nil {
		return l.opError("set", err)
	}
	return nil
}

// Close ends listening. Clients that wait are rejected, connections that Accept has not
// returned closed; the others go on.
func (l *Listener) Close() error {
	l.mu.Lock()
	was, queue := l.closed, l.queue
	l.closed, l.queue = true, nil
	l.mu.Unlock()
	if was {
		return l.opError("close", net.ErrClosed)
	}
	l.hub.strike(l)
	l.accept.finish(net.ErrClosed)
	err := l.ucp.Close()
	for _, c := range queue {
		c.Close()
	}
	l.hub.release()
	if err != nil {
		return l.opError("close", err)
	}
	return nil
}

func (l *Listener) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: network, Addr: l.addr, Err: err}
}
