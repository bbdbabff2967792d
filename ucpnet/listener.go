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
	accept waitContext // contexts for the waits of Accept

	// Fields guarded by mu.
	mu         sync.Mutex
	connecting []connectingConn       // connections that are being established, the oldest first
	queue      []*Conn                // established connections that Accept has not returned
	backlog    *ledger.Backlog[*Conn] // limits the connections in greeting and queue, by source
	closed     bool
}

var _ net.Listener = (*Listener)(nil)

// onRequest is called inside progress when a client connects. It rejects the client if the backlog
// has no room, and else creates the connection.
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

// connectingConn is a connection that is being established, and the time at which that started.
type connectingConn struct {
	*Conn
	since time.Time
}

// sourceOf returns the address or local user that a client is counted for in the backlog.
func sourceOf(r *ucp.ConnRequest) ledger.Source {
	who, uid := r.Peer(), -1
	if who.User.Known {
		uid = who.User.UID
	}
	return ledger.SourceOf(who.Addr.Addr(), uid)
}

// admit adds the connection of a new client to the backlog, and reports whether there was room.
// When the backlog is full it makes room: it drops connections that have failed, then the oldest
// connection that is being established, if that has taken longer than briskTime, then one of a
// source with at least two more waiting connections than the new client's source.
func (l *Listener) admit(c *Conn, source ledger.Source) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	full := func() bool { return l.backlog.Len() >= l.backlog.Most() }
	if full() {
		l.queue = slices.DeleteFunc(l.queue, l.dropDead)
	}
	if full() && len(l.connecting) > 0 && now.Sub(l.connecting[0].since) > briskTime {
		l.evict(l.connecting[0].Conn)
	}
	if l.closed {
		return false
	}
	out, ok := l.backlog.Add(c, source)
	if !ok {
		return false
	}
	if out != nil {
		l.evict(out)
	}
	l.connecting = append(l.connecting, connectingConn{c, now})
	return true
}

// evict resets a connection that Accept has not returned; the peer sees the reset.
func (l *Listener) evict(c *Conn) {
	l.backlog.Remove(c)
	l.connecting = slices.DeleteFunc(l.connecting, func(g connectingConn) bool { return g.Conn == c })
	l.queue = slices.DeleteFunc(l.queue, func(q *Conn) bool { return q == c })
	c.abort()
}

// greet waits until the connection is established, which takes some messages in each direction, and
// queues it for Accept. It runs on its own goroutine, so that the handshake proceeds without a
// waiting Accept.
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
	greetTime = 10 * time.Second       // time that a client may take to connect
	briskTime = 250 * time.Millisecond // time that it may take when others wait for its place
)

// admitted removes a connection from those being established, and queues it for Accept if made is
// true. It reports whether the connection was queued.
func (l *Listener) admitted(c *Conn, made bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := slices.IndexFunc(l.connecting, func(g connectingConn) bool { return g.Conn == c })
	if k < 0 { // it was evicted
		return false
	}
	l.connecting = slices.Delete(l.connecting, k, k+1)
	if !made || l.closed {
		l.backlog.Remove(c)
		return false
	}
	l.queue = append(l.queue, c)
	l.accept.nudge()
	return true
}

// parted reports whether the peer has ended the connection without an error: by its end note or, if
// it does not use this package, by closing the connection or ending its process. Received bytes may
// still be unread.
func (c *Conn) parted() bool {
	err := c.failed.Load()
	return c.ended.Load() || !c.native && err != nil && orderly(*err)
}

// brought reports whether Accept should return a connection although its client disconnected
// before the connection was established: because its end note has come, if the client uses this
// package, or else because bytes have come, which brought stores in c.early. Nothing has come from
// a client that did not complete the handshake.
func (c *Conn) brought() bool {
	if c.native || !c.parted() {
		return c.ended.Load()
	}
	d, _ := c.ep.StreamRecvData()
	c.early = slices.Clone(d.Bytes())
	d.Release()
	return len(c.early) > 0
}

// dropDead aborts a connection if it has failed before Accept has returned it, and reports whether
// it has. The caller holds l.mu.
func (l *Listener) dropDead(c *Conn) bool {
	if c.failed.Load() == nil || c.parted() {
		return false
	}
	l.backlog.Remove(c)
	c.abort() // abort does not use the listener, which may be locked
	return true
}

// Accept waits for a connection and returns it, a *Conn. It drops connections that have failed
// before.
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
		if err := waitError(ctx); err != nil {
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

// next removes the next connection from the queue and returns it, nil if there is none.
func (l *Listener) next() *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		c := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		if !l.dropDead(c) {
			l.backlog.Remove(c)
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
	l.hub.removeListener(l)
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
