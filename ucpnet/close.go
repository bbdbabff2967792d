package ucpnet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Close of a connection. The kernel sends the bytes that a socket has accepted even if the process
// ends; a transport in this process does not. So Close passes all written bytes and the end note
// (noteEnd) to the transports, and waits until no bytes are in flight to this side, because a
// kernel that finds unread bytes when the process ends discards the bytes that it has not sent
// yet. A peer that receives the end note at once answers the marks (noteMark) that it has not
// reached, because the writer no longer needs them, and then sends nothing more. A goroutine
// finishes closes that take longer; programs that are about to exit call Shutdown.

// briefly is the longest time that Close waits. Usually Close waits for one round trip after some
// hundred KiB of data, and not at all after less. Tests change it.
var briefly = 100 * time.Millisecond

// lingering holds the connections that were closed and whose resources are not released yet.
var lingering = struct {
	mu    sync.Mutex
	conns map[*Conn]struct{}
}{conns: make(map[*Conn]struct{})}

// Close ends the connection. When it returns, the transports have accepted all written bytes and,
// if there were several hundred KiB, the peer's worker has received them. If that takes longer than
// 100 ms, a goroutine continues until it is done, Config.Linger is over or the process ends. A
// program that is about to exit calls CloseWait instead, or Shutdown. Waiting calls return
// net.ErrClosed, as do all later calls.
func (c *Conn) Close() error {
	if !c.leave() {
		return c.opError("close", net.ErrClosed)
	}
	return nil
}

// CloseWait closes the connection, unless it is closed already, and waits until all written bytes
// are sent and a peer of this package has confirmed the end. If ctx or Config.Linger ends first it
// returns an error: written data may be lost.
func (c *Conn) CloseWait(ctx context.Context) error {
	c.Close()
	select {
	case <-c.departed:
		return c.opError("close", c.late)
	case <-ctx.Done():
		return c.opError("close", ctx.Err())
	}
}

// Shutdown waits until the process can exit without losing data: until all closed connections, of
// all configurations, have sent their data and have ended, as CloseWait does for one. Open
// connections stay open. If ctx ends first, the error wraps that of ctx and says how many
// connections are left. If a connection has reached its Config.Linger before, Shutdown returns that
// error.
func Shutdown(ctx context.Context) error {
	var late error
	for {
		c, n := lingers()
		if c == nil {
			return late
		}
		select {
		case <-c.departed:
			if late == nil {
				late = c.opError("close", c.late)
			}
		case <-ctx.Done():
			return fmt.Errorf("ucpnet: %d closed connections have unsent data, one of them %v->%v: %w", n, c.local, c.remote, ctx.Err())
		}
	}
}

// lingers returns one of the lingering connections, and their number.
func lingers() (*Conn, int) {
	lingering.mu.Lock()
	defer lingering.mu.Unlock()
	for c := range lingering.conns {
		return c, len(lingering.conns)
	}
	return nil, 0
}

// leave implements Close: it passes data and the end note to the transports, and starts a goroutine
// that completes the close. It reports whether the connection was open before.
func (c *Conn) leave() bool {
	return c.end(func() { sent := c.sendEnd(); go c.finishClose(sent) })
}

// abort ends the connection at once and without an end note, so the peer sees a connection reset.
// It may be called from a callback inside progress. It reports whether the connection was open
// before.
func (c *Conn) abort() bool {
	return c.end(func() { go c.finishAbort() })
}

// end makes all current and later calls return net.ErrClosed, and calls the function then. It does
// nothing and returns false if the connection was closed before.
func (c *Conn) end(then func()) (first bool) {
	c.closing.Do(func() {
		first = true
		lingering.mu.Lock()
		lingering.conns[c] = struct{}{}
		lingering.mu.Unlock()
		c.read.finish(net.ErrClosed)
		c.write.finish(net.ErrClosed)
		then()
	})
	return first
}

// sendEnd waits until the transports have accepted the written bytes, sends the end note, and
// waits until the peer has answered the last mark. It waits at most for the time briefly. It
// reports whether the end note was sent.
func (c *Conn) sendEnd() (sent bool) {
	if !c.wmu.TryLock() { // a Write is about to return
		return false
	}
	defer c.wmu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), min(c.linger, briefly))
	defer cancel()
	if over, err := c.out.wait(ctx); !over || err != nil || c.failed.Load() != nil {
		return false
	}
	if c.native {
		c.window.open(c.acked.Load())
		c.asks.Store(&answerWait{c.window.last(), cancel})
		c.sendNote(c.ep, noteEnd|noteStop, c.window.at)
		sent = true
	}
	if c.ep.FlushWait(ctx) == nil && sent && c.failed.Load() == nil && c.acked.Load() < c.window.last() {
		c.hub.w.Run(ctx)
	}
	return sent
}

// finishClose completes a close: it sends the end note, unless sent says that it was sent, waits until
// the peer has everything, and releases the resources of the connection.
func (c *Conn) finishClose(sent bool) {
	defer c.releaseResources()
	ctx, cancel := context.WithTimeout(context.Background(), c.linger)
	defer cancel()
	c.wmu.Lock()
	c.out.wait(ctx)
	if c.native && !sent {
		c.sendNote(c.ep, noteEnd|noteStop, c.window.at)
	}
	c.wmu.Unlock()
	if c.ep.Shutdown(ctx) != nil {
		c.ep.Close()
		c.late = ctx.Err()
	}
}

// finishAbort completes an abort: it closes the endpoint without an end note, and releases the resources
// of the connection.
func (c *Conn) finishAbort() {
	defer c.releaseResources()
	if t := c.twin; t != nil { // no error of the endpoint notifies the twin
		t.twinAborted.Store(true)
		t.read.nudge()
		t.write.nudge()
	}
	c.ep.Close()
}

// releaseResources releases the resources of the connection.
func (c *Conn) releaseResources() {
	c.rmu.Lock() // wait for the last reader
	c.port.free()
	c.hub.release()
	c.rmu.Unlock()
	lingering.mu.Lock()
	delete(lingering.conns, c)
	lingering.mu.Unlock()
	close(c.departed)
}
