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

// Writing. The buffer is the caller's again when Write returns, also at a deadline, and bytes
// that a transport has accepted cannot be recalled. So the caller's memory is sent only by
// operations that complete in their call: in pieces of one packet each, copied straight into
// the memory of the transport. When the transport has no room, the piece is copied into
// memory of the connection, and Write waits until it has left. A Write that reaches its
// deadline meanwhile returns: the piece counts as written, and a goroutine waits for its end.

// errShut ends the patience of writes after CloseWrite.
var errShut = &failure{syscall.EPIPE, errors.New("closed for writing")}

// immediate is for sends that are over in their call.
var immediate = &ucp.RequestParams{Flags: ucp.OpForceImmediate}

// outgoing is a piece in memory of the connection on its way.
type outgoing struct {
	r    *ucp.Request // nil if there is none
	buf  *[copySize]byte
	seen bool // another goroutine waits for it, too
}

// wait waits until the piece has left. It reports whether it has, and its error.
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

// Write writes b. It returns when the transports or the connection have accepted all of it,
// and waits if the peer does not read. At the deadline the error matches
// os.ErrDeadlineExceeded, and the first n bytes are sent.
func (c *Conn) Write(b []byte) (int, error) {
	c.wmu.Lock()
	n, err := c.send(b)
	c.wmu.Unlock()
	return n, c.opError("write", err)
}

// send is Write. The caller holds wmu.
func (c *Conn) send(b []byte) (n int, err error) {
	for {
		ctx := c.write.current()
		if err := c.mayWrite(ctx); err != nil {
			if err == net.ErrClosed || n < len(b) || n == 0 {
				return n, err
			}
			return n, nil // what was sent before will arrive
		}
		switch {
		case c.out.r != nil:
			err = c.await(ctx)
		case n == len(b):
			return n, nil
		case !c.window.open(c.acked.Load()):
			err = c.starve(ctx)
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

// mayWrite returns why a Write cannot write: nil if it can.
func (c *Conn) mayWrite(ctx context.Context) error {
	if err := spent(ctx); err != nil {
		return err
	}
	if c.cut.Load() {
		return errCut
	}
	if c.stopped.Load() {
		return &failure{syscall.EPIPE, errors.New("the peer has ended reading")}
	}
	return nil
}

// wholePacket is less than a packet of the transports that copy everything. A transport with
// a lower limit for copies sends longer pieces better without copying: these are sent from
// the memory of the connection, as much as that holds.
const wholePacket = 4 << 10

// piece sends the first of some bytes, and returns how many.
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

// sent counts bytes that were sent, by what they cost the peer, and sets a mark.
func (c *Conn) sent(n, cost int) {
	if c.window.at += uint64(n); c.native && c.window.mark(cost) {
		c.tell(c.ep, noteMark, c.window.at)
	}
}

// await waits until the piece on its way has left. If ctx ends before, a goroutine goes on
// waiting.
func (c *Conn) await(ctx context.Context) error {
	over, err := c.out.wait(ctx)
	if over {
		return err
	}
	if !c.out.seen {
		c.out.seen = true
		c.see(c.out.r, nil)
	}
	return nil
}

// starve waits until the peer has read, or another event has to be checked.
func (c *Conn) starve(ctx context.Context) error {
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

// writeError is the error of writes when the endpoint has failed: EPIPE if the peer has
// closed in good order.
func (c *Conn) writeError(err error) error {
	switch {
	case spent(c.write.current()) == net.ErrClosed:
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
