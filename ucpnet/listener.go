package ucpnet

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucp"
)

// Listener is a net.Listener for connections of this package, and for streams of C UCX.
type Listener struct {
	hub    *hub
	ucp    *ucp.Listener
	config Config
	addr   *Addr
	accept patience

	mu       sync.Mutex
	greeting []greeted              // connections that are being made, the oldest first
	queue    []*Conn                // that Accept has not returned
	places   *ledger.Backlog[*Conn] // of all of those
	closed   bool
}

var _ net.Listener = (*Listener)(nil)

// onRequest accepts a client, if there is room for one more. It runs inside progress.
func (l *Listener) onRequest(r *ucp.ConnRequest) {
	c := newConn(l.hub, l.config.Linger)
	if !l.admit(c, sourceOf(r)) {
		r.Reject()
		return
	}
	p := ucp.EndpointParams{ConnRequest: r, ErrMode: r.ErrMode()}
	if r.ClientID() == Greeting {
		c.native, p.ClientID = true, Greeting
	}
	if err := c.attach(p); err != nil {
		l.admitted(c, false)
		return
	}
	l.hub.retain()
	go l.greet(c)
}

// greeted is a connection that is being made, and since when.
type greeted struct {
	*Conn
	since time.Time
}

// sourceOf returns the source that a client is counted with.
func sourceOf(r *ucp.ConnRequest) ledger.Source {
	who, uid := r.Peer(), -1
	if who.User.Known {
		uid = who.User.UID
	}
	return ledger.SourceOf(who.Addr.Addr(), uid)
}

// admit reports whether the backlog takes one more client. When the backlog is full, a
// connection that has failed is dropped first, then the oldest one that is still connecting,
// if it is slow, then one of a source that has more places than the newcomer's.
func (l *Listener) admit(c *Conn, source ledger.Source) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	full := func() bool { return l.places.Len() >= l.places.Most() }
	if full() {
		l.queue = slices.DeleteFunc(l.queue, l.dropDead)
	}
	if full() && len(l.greeting) > 0 && now.Sub(l.greeting[0].since) > briskTime {
		l.evict(l.greeting[0].Conn)
	}
	if l.closed {
		return false
	}
	out, ok := l.places.Add(c, source)
	if !ok {
		return false
	}
	if out != nil {
		l.evict(out)
	}
	l.greeting = append(l.greeting, greeted{c, now})
	return true
}

// evict resets a connection that Accept has not returned; the peer sees the reset.
func (l *Listener) evict(c *Conn) {
	l.places.Remove(c)
	l.greeting = slices.DeleteFunc(l.greeting, func(g greeted) bool { return g.Conn == c })
	l.queue = slices.DeleteFunc(l.queue, func(q *Conn) bool { return q == c })
	c.abort()
}

// greet waits until the connection is made, which takes some messages in either direction. It
// runs on a goroutine of its own, so that Accept need not be waiting.
func (l *Listener) greet(c *Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), greetTime)
	err := c.ep.ConnectWait(ctx)
	cancel()
	made := err == nil || c.brought()
	if made {
		c.settle()
	}
	if !l.admitted(c, made) {
		c.abort()
	}
}

const (
	greetTime = 10 * time.Second       // how long a client may take to connect
	briskTime = 250 * time.Millisecond // while other clients wait for its place
)

// admitted removes a connection from those that are being made, and puts it into the queue
// if it is made. It reports whether it did.
func (l *Listener) admitted(c *Conn, made bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := slices.IndexFunc(l.greeting, func(g greeted) bool { return g.Conn == c })
	if k < 0 { // it had to leave
		return false
	}
	l.greeting = slices.Delete(l.greeting, k, k+1)
	if !made || l.closed {
		l.places.Remove(c)
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

// brought reports whether a client that has gone before the connection was made has left
// something to be read: one of this package the end of what it has written, another one the
// first bytes. A client that never answered has not.
func (c *Conn) brought() bool {
	if c.native || !c.parted() {
		return c.ended.Load()
	}
	d, _ := c.ep.StreamRecvData()
	c.early = slices.Clone(d.Bytes())
	d.Release()
	return len(c.early) > 0
}

// dropDead ends a connection that has failed before Accept has returned it.
func (l *Listener) dropDead(c *Conn) bool {
	if c.failed.Load() == nil || c.parted() {
		return false
	}
	l.places.Remove(c)
	c.abort() // the listener may be locked, and in the middle of things
	return true
}

// Accept waits for a connection. Connections that failed while waiting are dropped.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptUCP()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptUCP is like Accept, but returns a *Conn.
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
		if !l.dropDead(c) {
			l.places.Remove(c)
			return c
		}
	}
	return nil
}

// Addr returns the listener's address, an *Addr.
func (l *Listener) Addr() net.Addr { return l.addr }

// SetDeadline sets the time at which Accept fails.
func (l *Listener) SetDeadline(t time.Time) error {
	if err := l.accept.setDeadline(t); err != nil {
		return l.opError("set", err)
	}
	return nil
}

// Close stops listening. Waiting clients are rejected and connections that Accept has not
// returned are reset; all other connections go on.
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
		c.abort()
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
