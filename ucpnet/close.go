package ucpnet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Closing. The kernel sends what a socket has accepted, even if the process ends; a transport
// in this process does not. So Close hands all written bytes and the note of the end to the
// transports, and waits until no bytes are on their way to this side: a kernel that finds
// unread bytes when the process ends discards what it has not sent yet. A peer that receives
// the note of the end answers the marks that it has not reached at once, because the writer
// no longer needs them, and then sends nothing more. A goroutine finishes closes that take
// longer; programs that are about to end call Shutdown.

// briefly is how long Close waits. Usually it waits one round trip behind some hundred KiB,
// and not at all behind less.
const briefly = 100 * time.Millisecond

// lingering holds the connections that were closed and have not ended.
var lingering = struct {
	mu    sync.Mutex
	conns map[*Conn]struct{}
}{conns: make(map[*Conn]struct{})}

// Close ends the connection. When it returns, the transports have accepted what was
// written, and if that was several hundred KiB the peer's worker has. If that takes longer
// than 100 ms a goroutine continues, until Config.Linger or the process ends. A program
// that is about to exit calls CloseWait instead, or Shutdown. Calls that are waiting return
// net.ErrClosed, as do all later calls.
func (c *Conn) Close() error {
	if !c.leave() {
		return c.opError("close", net.ErrClosed)
	}
	return nil
}

// CloseWait closes the connection, unless Close was called before, and waits until what was
// written is sent and a peer of this package has confirmed the end. If ctx or Config.Linger
// ends first the error says so: written data may be lost.
func (c *Conn) CloseWait(ctx context.Context) error {
	c.Close()
	select {
	case <-c.departed:
		return c.opError("close", c.late)
	case <-ctx.Done():
		return c.opError("close", ctx.Err())
	}
}

// Shutdown waits until the process can exit without losing data: until all closed
// connections, of all configurations, have ended, as CloseWait does for one. Open
// connections stay open. If ctx ends first the error is that of ctx and says what is left;
// if Config.Linger has ended for one of the connections that Shutdown waited for, the error
// says that.
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

// lingers returns one of the connections that linger, and how many there are.
func lingers() (*Conn, int) {
	lingering.mu.Lock()
	defer lingering.mu.Unlock()
	for c := range lingering.conns {
		return c, len(lingering.conns)
	}
	return nil, 0
}

// leave is Close. It reports whether the connection was not closed before.
func (c *Conn) leave() bool {
	return c.end(func() { told := c.farewell(); go c.depart(told) })
}

// abort ends the connection at once and without a farewell: the peer sees a reset. It may be
// called inside progress.
func (c *Conn) abort() bool {
	return c.end(func() { go c.vanish() })
}

// end ends all calls, and the connection by then, unless it was closed before.
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

// farewell hands over what was written and, where there is nothing in front of that, the end.
// It reports whether the peer is told of it.
func (c *Conn) farewell() (told bool) {
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
		c.asks.Store(&question{c.window.last(), cancel})
		c.tell(c.ep, noteEnd|noteStop, c.window.at)
		told = true
	}
	if c.ep.FlushWait(ctx) == nil && told && c.failed.Load() == nil && c.acked.Load() < c.window.last() {
		c.hub.w.Run(ctx)
	}
	return told
}

// depart says farewell, and gives back what the connection has.
func (c *Conn) depart(told bool) {
	defer c.departs()
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
}

// vanish is depart without a word.
func (c *Conn) vanish() {
	defer c.departs()
	if t := c.twin; t != nil { // nothing else would tell it
		t.cut.Store(true)
		t.read.nudge()
		t.write.nudge()
	}
	c.ep.Close()
}

// departs is the end of the connection.
func (c *Conn) departs() {
	c.rmu.Lock() // nobody reads any more
	c.port.free()
	c.hub.release()
	c.rmu.Unlock()
	lingering.mu.Lock()
	delete(lingering.conns, c)
	lingering.mu.Unlock()
	close(c.departed)
}
