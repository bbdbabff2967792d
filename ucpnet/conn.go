package ucpnet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
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
	early  []byte // what was received before the connection was made, and is not read yet

	// Writing (write.go).
	wmu      sync.Mutex // held by the one Write at a time
	write    patience
	most     int // bytes that may go at once, 0 if that is not known yet
	window   window
	out      outgoing
	acked    atomic.Uint64 // bytes that the peer has read, as of some mark
	starving atomic.Bool   // a Write waits for that
	stopped  atomic.Bool   // the peer has ended reading

	failed atomic.Pointer[error] // why the endpoint has failed

	closing  sync.Once
	asks     atomic.Pointer[question] // Close waits for an answer
	departed chan struct{}            // closed when nothing is left of the connection here
	late     error                    // then: that the linger was over before
	port     *port                    // of a client within the worker
	twin     *Conn                    // the other end, within the worker
	cut      atomic.Bool              // which is gone without a farewell
}

var (
	_ net.Conn     = (*Conn)(nil)
	_ fmt.Stringer = (*Conn)(nil)
)

// newConn makes a connection that has no endpoint yet, with a reference of the hub that is
// the connection's.
func newConn(h *hub, linger time.Duration) *Conn {
	return &Conn{hub: h, linger: linger, local: new(Addr), remote: new(Addr), departed: make(chan struct{})}
}

// attach makes the endpoint of the connection. It fills in the parameters that belong to the
// connection.
func (c *Conn) attach(p ucp.EndpointParams) (err error) {
	p.UserData = c
	onError := func(_ *ucp.Endpoint, err error, _ any) {
		c.failed.Store(&err)
		c.write.nudge()
		c.answered(math.MaxUint64)
	}
	if p.Address == nil { // the ends of a pipe, within the worker, have ErrModeNone
		p.OnError = onError
	}
	c.ep, err = c.hub.w.NewEndpoint(p)
	return err
}

// settle fills in the fields that are known once the connection is made.
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

// String returns a text like "ucp 127.0.0.1:40404->127.0.0.1:80 over posix, tcp".
func (c *Conn) String() string {
	s := fmt.Sprintf("%s %v->%v", network, c.local, c.remote)
	var over []string
	for _, t := range c.ep.Attr().Transports {
		if !slices.Contains(over, t.Name) {
			over = append(over, t.Name)
		}
	}
	if over != nil {
		s += " over " + strings.Join(over, ", ")
	}
	return s
}

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

// SetReadDeadline sets the time at which reads fail, including reads that are waiting.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.deadlineError(c.read.setDeadline(t)) }

// SetWriteDeadline sets the time at which writes fail. Bytes that a Write has accepted are
// still sent.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.deadlineError(c.write.setDeadline(t)) }

// deadlineError is the error of setting a deadline on a closed connection. On one that is
// closed in one direction it is nil.
func (c *Conn) deadlineError(err error) error {
	if !errors.Is(err, net.ErrClosed) {
		return nil
	}
	return c.opError("set", err)
}

// CloseWrite ends writing: the peer reads what was written, and then gets io.EOF. A peer
// that does not use this package cannot be notified; in that case nothing changes, and the
// error matches errors.ErrUnsupported.
func (c *Conn) CloseWrite() error {
	if !c.native {
		return c.opError("close", fmt.Errorf("the peer does not support a half-close: %w", errors.ErrUnsupported))
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

// CloseRead ends reading: reads return io.EOF. A peer of this package is notified, and its
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

// see starts a goroutine that waits for an operation, and then calls then, unless that is nil.
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
