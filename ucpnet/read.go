package ucpnet

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// errReadClosed is the error with which CloseRead ends the waits of reads.
var errReadClosed = errors.New("closed for reading")

// errTwinAborted is the error of reads and writes of a connection within the worker whose other Conn was
// aborted.
var errTwinAborted = &failure{syscall.ECONNRESET, ucs.ErrConnectionReset}

// Read waits until at least one byte has arrived, and reads the bytes that are there. A Read that
// fails because of a deadline loses no bytes: the next Read returns them.
func (c *Conn) Read(b []byte) (int, error) {
	c.rmu.Lock()
	n, err := c.receive(b)
	c.rmu.Unlock()
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

// receive implements Read. The caller holds rmu.
func (c *Conn) receive(b []byte) (int, error) {
	for {
		ctx := c.read.current()
		if err := c.mayRead(ctx); err != nil {
			return 0, err
		}
		if len(b) == 0 {
			return 0, nil
		}
		if len(c.early) > 0 {
			n := copy(b, c.early)
			c.early = c.early[n:]
			c.countRead(n)
			return n, nil
		}
		n, err := c.ep.StreamRecvWait(ctx, b)
		if n > 0 {
			c.countRead(n)
			return n, nil
		}
		if ctx.Err() == nil && err != nil {
			return 0, c.readError(err)
		}
	}
}

// mayRead returns the reason why a Read cannot read, or nil.
func (c *Conn) mayRead(ctx context.Context) error {
	switch err := waitError(ctx); {
	case err == errReadClosed:
		return io.EOF
	case err != nil:
		return err
	case c.ended.Load() && c.taken.Load() >= c.total.Load():
		return io.EOF
	case c.twinAborted.Load():
		return errTwinAborted
	}
	return nil
}

// readError returns the error of reads after the endpoint has failed with err and all received
// bytes are read.
func (c *Conn) readError(err error) error {
	switch {
	case waitError(c.read.current()) == net.ErrClosed:
		return net.ErrClosed
	case c.ended.Load() && c.taken.Load() >= c.total.Load(): // the end note has come since mayRead
		return io.EOF
	case !c.native && orderly(err):
		return io.EOF
	}
	return &failure{syscall.ECONNRESET, err}
}

// countRead counts n bytes that were read, and answers the peer's mark if they reach it.
func (c *Conn) countRead(n int) {
	if at, due := c.marked.reached(c.taken.Add(uint64(n))); due {
		c.haveRead(c.ep, at)
	}
}

// copySize is the largest number of bytes copied at once.
const copySize = 128 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// WriteTo writes received bytes to w until the end of the stream. Bytes that have already
// arrived are written without an intermediate copy. Other reads wait until it returns.
func (c *Conn) WriteTo(w io.Writer) (total int64, err error) {
	c.rmu.Lock()
	defer c.rmu.Unlock()
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	for {
		d, err := c.here()
		p := d.Bytes()
		if err == nil && len(p) == 0 {
			var n int
			n, err = c.receive(buf[:])
			p = buf[:n]
		} else if err == nil {
			c.countRead(len(p))
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, c.opError("read", err)
		}
		n, err := w.Write(p)
		total += int64(n)
		d.Release()
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return total, err
		}
	}
}

// here returns received bytes in the memory of the transport, or no bytes if none have arrived. It
// does not return errors of the endpoint: the method receive, which WriteTo calls next, returns
// them.
func (c *Conn) here() (ucp.StreamData, error) {
	if err := c.mayRead(c.read.current()); err != nil {
		return ucp.StreamData{}, err
	}
	if len(c.early) > 0 {
		return ucp.StreamData{}, nil
	}
	d, _ := c.ep.StreamRecvData()
	return d, nil
}
