package ucpnet

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// How a Write sends. The buffer belongs to the caller again when Write returns, also at a
// deadline, and bytes that a transport has accepted cannot be recalled. So the caller's memory is
// sent only by operations that complete in their call: in pieces of one packet each, copied
// directly into the memory of the transport. When the transport has no room, the piece is copied
// into memory of the connection, and Write waits until its send completes. A Write that reaches
// its deadline during that wait returns: the piece counts as written, and a goroutine waits for
// its completion.

// errWriteClosed is the error with which CloseWrite ends the waits of writes.
var errWriteClosed = &failure{syscall.EPIPE, errors.New("closed for writing")}

// immediate makes a send complete in its call or fail with ucs.ErrNoResource.
var immediate = &ucp.RequestParams{Flags: ucp.OpForceImmediate}

// outgoing is an outstanding send of a piece in memory of the connection.
type outgoing struct {
	r    *ucp.Request // request of the send, nil if no send is outstanding
	buf  *[copySize]byte
	seen bool // a goroutine of Conn.waitInBackground also waits for the send
}

// wait waits until the send completes or ctx ends. It reports whether the send has completed, and
// returns the error of the send or of ctx.
func (o *outgoing) wait(ctx context.Context) (over bool, err error) {
	if o.r == nil {
		return true, nil
	}
	if err = o.r.Wait(ctx); !o.r.Done() {
		return false, err
	}
	err = o.r.Err()
	if !o.seen {
		o.r.Free()
	}
	copyBuffers.Put(o.buf)
	*o = outgoing{}
	return true, err
}

// Write writes b. It returns when all of b is accepted by the transports or copied into memory of
// the connection, and waits while the peer does not read. At the deadline the error matches
// os.ErrDeadlineExceeded; as many bytes as Write returns are or will be sent.
func (c *Conn) Write(b []byte) (int, error) {
	c.wmu.Lock()
	n, err := c.send(b)
	c.wmu.Unlock()
	return n, c.opError("write", err)
}

// send implements Write. The caller holds wmu.
func (c *Conn) send(b []byte) (n int, err error) {
	for {
		ctx := c.write.current()
		if err := c.mayWrite(ctx); err != nil {
			if err == net.ErrClosed || n < len(b) || n == 0 {
				return n, err
			}
			return n, nil // the bytes accepted before will arrive
		}
		switch {
		case c.out.r != nil:
			err = c.await(ctx)
		case n == len(b):
			return n, nil
		case !c.window.open(c.acked.Load()):
			err = c.waitForWindow(ctx)
		default:
			var k int
			k, err = c.piece(b[n:])
			n += k
		}
		if err != nil {
			return n, c.writeError(err)
		}
	}
}

// mayWrite returns the reason why a Write cannot write, or nil.
func (c *Conn) mayWrite(ctx context.Context) error {
	if err := waitError(ctx); err != nil {
		return err
	}
	if c.twinAborted.Load() {
		return errTwinAborted
	}
	if c.stopped.Load() {
		return &failure{syscall.EPIPE, errors.New("the peer has ended reading")}
	}
	return nil
}

// wholePacket is a size, in bytes, that one packet of a transport without zero-copy always holds. A
// transport that copies less at once sends longer pieces better without a copy of its own: these
// pieces, of up to copySize bytes, are copied into memory of the connection and sent from there.
const wholePacket = 4 << 10

// piece sends the first bytes of b and returns their number. If the send has not completed it is in
// c.out.
func (c *Conn) piece(b []byte) (int, error) {
	if c.most == 0 {
		c.most = c.ep.MaxStreamNow()
	}
	if n := min(len(b), c.most); n > 0 && (n == len(b) || n >= wholePacket) {
		_, err := c.ep.StreamSend(b[:n], immediate)
		if err == nil {
			c.sent(n, cost(n))
			return n, nil
		}
		if err != ucs.ErrNoResource {
			return 0, err
		}
	}
	buf := copyBuffers.Get().(*[copySize]byte)
	n := copy(buf[:], b)
	r, err := c.ep.StreamSend(buf[:n], nil)
	if r == nil {
		copyBuffers.Put(buf)
	}
	if err != nil {
		return 0, err
	}
	if r != nil {
		c.out = outgoing{r: r, buf: buf}
	}
	c.sent(n, n+(n/packetSize+1)*packetCost)
	return n, nil
}

// sent counts sent bytes and their cost at the peer, and sends a mark if one is due.
func (c *Conn) sent(n, cost int) {
	if c.window.at += uint64(n); c.native && c.window.mark(cost) {
		c.sendNote(c.ep, noteMark, c.window.at)
	}
}

// await waits until the outstanding piece is sent. If ctx ends first, a goroutine continues to
// wait.
func (c *Conn) await(ctx context.Context) error {
	over, err := c.out.wait(ctx)
	if over {
		return err
	}
	if !c.out.seen {
		c.out.seen = true
		c.waitInBackground(c.out.r, nil)
	}
	return nil
}

// waitForWindow waits until the peer has read more bytes, or until another event requires the caller to
// check its condition again.
func (c *Conn) waitForWindow(ctx context.Context) error {
	c.starving.Store(true)
	defer c.starving.Store(false)
	if err := c.failed.Load(); err != nil {
		return *err
	}
	if !c.window.open(c.acked.Load()) {
		if err := c.hub.w.Run(ctx); ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// writeError returns the error of writes after the endpoint has failed with err: EPIPE if the peer
// has closed the connection, ECONNRESET otherwise.
func (c *Conn) writeError(err error) error {
	switch {
	case waitError(c.write.current()) == net.ErrClosed:
		return net.ErrClosed
	case c.ended.Load() || !c.native && orderly(err):
		return &failure{syscall.EPIPE, err}
	}
	return &failure{syscall.ECONNRESET, err}
}

// ReadFrom reads from r until its end and writes the bytes to the connection. Other writes
// may be interleaved.
func (c *Conn) ReadFrom(r io.Reader) (total int64, err error) {
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	for {
		n, err := r.Read(buf[:])
		if n > 0 {
			k, err := c.Write(buf[:n])
			total += int64(k)
			if err != nil {
				return total, err
			}
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}
