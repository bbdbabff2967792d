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
	native bool // the peer uses this package
	linger time.Duration
	local  *Addr
	remote *Addr

	// State of reads (read.go).
	rmu    sync.Mutex    // held by the current Read
	read   waitContext   // contexts for the waits of reads
	taken  atomic.Uint64 // number of bytes read
	marked readerMarks   // marks of the peer that are not answered
	answer answering     // sends the answers to marks
	total  atomic.Uint64 // number of bytes that the peer sends in all, valid if ended is true
	ended  atomic.Bool   // the end note of the peer has come
	early  []byte        // unread bytes that came before the connection was established

	// State of writes (write.go).
	wmu      sync.Mutex    // held by the current Write
	write    waitContext   // contexts for the waits of writes
	most     int           // bytes that one immediate send can take, 0 if unknown
	window   window        // flow control
	out      outgoing      // the send that is not complete, if there is one
	acked    atomic.Uint64 // bytes that the peer has read, as of its last note
	starving atomic.Bool   // a Write waits for acked to advance
	stopped  atomic.Bool   // the peer has ended reading

	failed atomic.Pointer[error] // error with which the endpoint has failed, nil if it has not

	closing     sync.Once
	asks        atomic.Pointer[answerWait] // set while Close waits for the answer to the last mark
	departed    chan struct{}              // closed when all resources of the connection are released
	late        error                      // error if Config.Linger is over before departed is closed
	port        *port                      // the client's port of a connection within the worker, else nil
	twin        *Conn                      // the other Conn of a connection within the worker, else nil
	twinAborted atomic.Bool                // the twin has aborted the connection
}

var (
	_ net.Conn     = (*Conn)(nil)
	_ fmt.Stringer = (*Conn)(nil)
)

// newConn makes a connection that has no endpoint yet. The connection takes over a reference of the
// caller to the hub.
func newConn(h *hub, linger time.Duration) *Conn {
	return &Conn{hub: h, linger: linger, local: new(Addr), remote: new(Addr), departed: make(chan struct{})}
}

// attach creates the connection's endpoint with the parameters p. It sets UserData and OnError
// itself.
func (c *Conn) attach(p ucp.EndpointParams) (err error) {
	p.UserData = c
	onError := func(_ *ucp.Endpoint, err error, _ any) {
		c.failed.Store(&err)
		c.write.nudge()
		c.answered(math.MaxUint64)
	}
	if p.Address == nil { // connections within the worker have ErrModeNone
		p.OnError = onError
	}
	c.ep, err = c.hub.w.NewEndpoint(p)
	return err
}

// settle fills in the addresses, which are known when the connection is established.
func (c *Conn) settle() {
	if a, err := c.ep.LocalAddr(); err == nil {
		c.local.AddrPort = a
	}
	if a, err := c.ep.RemoteAddr(); err == nil {
		c.remote.AddrPort = a
	}
}

// LocalAddr returns the *Addr of this side of the connection.
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

// SetDeadline sets the deadlines of reads and writes.
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

// deadlineError converts the error of waitContext.setDeadline: it returns an error if the connection
// is closed, and nil if it is open or closed in one direction only.
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
	if waitError(c.write.current()) == net.ErrClosed {
		return c.opError("close", net.ErrClosed)
	}
	c.write.finish(errWriteClosed)
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.sendNote(c.ep, noteEnd, c.window.at)
	return nil
}

// CloseRead ends reading: reads return io.EOF. A peer of this package is notified, and its
// writes fail with syscall.EPIPE.
func (c *Conn) CloseRead() error {
	if waitError(c.read.current()) == net.ErrClosed {
		return c.opError("close", net.ErrClosed)
	}
	c.read.finish(errReadClosed)
	if c.native {
		c.sendNote(c.ep, noteStop, 0)
	}
	return nil
}

// waitInBackground starts a goroutine that waits for an operation and then calls the function then, if that is
// not nil.
func (c *Conn) waitInBackground(r *ucp.Request, then func()) {
	c.hub.retain()
	go func() {
		defer c.hub.release()
		r.Wait(context.Background()) // it ends at the latest with the endpoint
		if then != nil {
			then()
		}
	}()
}
