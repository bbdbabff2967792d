package ucpnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// Conn is a connection. It implements net.Conn as a TCP connection does: any goroutine may
// call any method at any time.
type Conn struct {
	hub    *hub
	ep     *ucp.Endpoint
	native bool // the peer is of this package
	linger time.Duration
	local  *Addr
	remote *Addr

	// Reading (read.go).
	rmu    sync.Mutex // held by the one Read at a time
	read   patience
	taken  atomic.Uint64 // bytes read
	marked asked
	answer answering
	total  atomic.Uint64 // bytes that the peer sends, if ended
	ended  atomic.Bool

	// Writing (write.go).
	wmu      sync.Mutex // held by the one Write at a time
	write    patience
	most     int // bytes that may go at once, 0 if that is not known yet
	window   window
	out      outgoing
	acked    atomic.Uint64 // bytes that the peer has read, as of some mark
	starving atomic.Bool   // a Write waits for that
	stopped  atomic.Bool   // the peer reads no more

	failed atomic.Pointer[error] // why the endpoint has failed

	closing  sync.Once
	departed chan struct{} // closed when nothing is left of the connection here
	late     error         // then: that the linger was over before
}

var _ net.Conn = (*Conn)(nil)

// newConn makes a connection that has no endpoint yet, with a reference of the hub that is
// the connection's.
func newConn(h *hub, linger time.Duration) *Conn {
	return &Conn{hub: h, linger: linger, local: new(Addr), remote: new(Addr), departed: make(chan struct{})}
}

// attach gives it its endpoint, which the parameters lack what is the connection's for.
func (c *Conn) attach(p ucp.EndpointParams) (err error) {
	p.UserData = c
	if p.ErrMode != ucp.ErrModeNone { // which is the client's
		p.OnError = func(_ *ucp.Endpoint, err error, _ any) {
			c.failed.Store(&err)
			c.write.nudge()
		}
	}
	c.ep, err = c.hub.w.NewEndpoint(p)
	return err
}

// settle fills in what is known when it is connected.
func (c *Conn) settle() {
	if a, err := c.ep.LocalAddr(); err == nil {
		c.local.AddrPort = a
	}
	if a, err := c.ep.RemoteAddr(); err == nil {
		c.remote.AddrPort = a
	}
}

// LocalAddr returns the *Addr of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the *Addr of the peer.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	err := c.read.setDeadline(t)
	if e := c.write.setDeadline(t); err == nil || errors.Is(e, net.ErrClosed) {
		err = e
	}
	return c.deadlineError(err)
}

// SetReadDeadline sets when reads give up, those that wait already too.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.deadlineError(c.read.setDeadline(t)) }

// SetWriteDeadline sets when writes give up. What a Write has taken is sent nevertheless.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.deadlineError(c.write.setDeadline(t)) }

// deadlineError is the error of setting a deadline: of a closed connection. That of half
// of one matters no more.
func (c *Conn) deadlineError(err error) error {
	if !errors.Is(err, net.ErrClosed) {
		return nil
	}
	return c.opError("set", err)
}

// CloseWrite says that nothing more will be written: the peer reads what was, and then gets
// io.EOF. A peer that is not of this package cannot be told: then the error matches
// errors.ErrUnsupported, and nothing has changed.
func (c *Conn) CloseWrite() error {
	if !c.native {
		return c.opError("close", fmt.Errorf("the peer cannot be told that this is the last byte: %w", errors.ErrUnsupported))
	}
	if spent(c.write.current()) == net.ErrClosed {
		return c.opError("close", net.ErrClosed)
	}
	c.write.finish(errShut)
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.tell(c.ep, noteEnd, c.window.at)
	return nil
}

// CloseRead ends reading: reads return io.EOF. A peer of this package is told, and its
// writes fail with syscall.EPIPE.
func (c *Conn) CloseRead() error {
	if spent(c.read.current()) == net.ErrClosed {
		return c.opError("close", net.ErrClosed)
	}
	c.read.finish(errDeaf)
	if c.native {
		c.tell(c.ep, noteStop, 0)
	}
	return nil
}

// Close ends the connection. It does not wait: what was written is still sent, for as long
// as Config.Linger allows, on a goroutine of its own, and as long as the process lives:
// CloseWait is for who is about to end it. Calls that wait return, with net.ErrClosed, as
// does everything afterwards.
func (c *Conn) Close() error {
	if !c.leave(c.farewell) {
		return c.opError("close", net.ErrClosed)
	}
	return nil
}

// leave is Close; farewell, unless nil, may tell the peer, and says whether it has. It
// reports whether the connection was not closed before.
func (c *Conn) leave(farewell func() bool) (first bool) {
	c.closing.Do(func() {
		first = true
		c.read.finish(net.ErrClosed)
		c.write.finish(net.ErrClosed)
		told := farewell != nil && farewell()
		go c.depart(told)
	})
	return first
}

// CloseWait is Close, unless that was called, and waits until what was written is sent and a
// peer of this package knows of the end. If ctx or Config.Linger ends first the error says
// so: what was written may be lost.
func (c *Conn) CloseWait(ctx context.Context) error {
	c.Close()
	select {
	case <-c.departed:
		return c.opError("close", c.late)
	case <-ctx.Done():
		return c.opError("close", ctx.Err())
	}
}

// farewell tells the peer of the end if that can go out at once, so that it does also where
// the process ends right behind Close. It reports whether it has.
func (c *Conn) farewell() bool {
	if !c.native || !c.wmu.TryLock() {
		return false
	}
	defer c.wmu.Unlock()
	if c.out.r != nil {
		return false
	}
	c.tell(c.ep, noteEnd|noteStop, c.window.at)
	c.hub.w.Progress()
	return true
}

// depart says farewell, and gives back what the connection has.
func (c *Conn) depart(told bool) {
	defer close(c.departed)
	ctx, cancel := context.WithTimeout(context.Background(), c.linger)
	defer cancel()
	c.wmu.Lock()
	c.out.wait(ctx)
	if c.native && !told {
		c.tell(c.ep, noteEnd|noteStop, c.window.at)
	}
	c.wmu.Unlock()
	if c.ep.Shutdown(ctx) != nil {
		c.ep.Close()
		c.late = ctx.Err()
	}
	c.rmu.Lock() // nobody reads any more
	defer c.rmu.Unlock()
	c.hub.release()
}

// see has an operation go on that nobody waits for: a goroutine does. Unless it is nil then
// is called at the end.
func (c *Conn) see(r *ucp.Request, then func()) {
	c.hub.retain()
	go func() {
		defer c.hub.release()
		r.Wait(context.Background()) // it ends with the endpoint, at the latest
		if then != nil {
			then()
		}
	}()
}
