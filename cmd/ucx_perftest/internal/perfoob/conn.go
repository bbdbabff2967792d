//go:build linux

package perfoob

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// Conn is the connection between a client and a server. It belongs to one
// goroutine; Alive may be called by others too.
type Conn struct {
	c   *net.TCPConn
	raw syscall.RawConn
}

// NewConn wraps a connection, which it owns from then on.
func NewConn(c *net.TCPConn) (*Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		c.Close()
		return nil, err
	}
	return &Conn{c: c, raw: raw}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.c.Close() }

// paramsTimeout bounds the wait for a new client's parameters, which C's tool sends at once. There
// are no other time limits: a peer may be stopped and continued later.
const paramsTimeout = 10 * time.Second

// SendParams sends the client's parameters.
func (c *Conn) SendParams(p *Params, r Release) error {
	return c.write(p.Append(nil, r))
}

// RecvParams receives the client's parameters and detects its release.
func (c *Conn) RecvParams() (Params, Release, error) {
	if err := c.c.SetReadDeadline(time.Now().Add(paramsTimeout)); err != nil {
		return Params{}, 0, err
	}
	p, r, err := readParams(c.c)
	if err != nil {
		return Params{}, 0, fmt.Errorf("reading the client's parameters: %w", err)
	}
	return p, r, c.c.SetReadDeadline(time.Time{})
}

func readParams(from io.Reader) (Params, Release, error) {
	var buf [maxParamsLen]byte
	head := buf[:Release113.ParamsLen()]
	if err := readFull(from, head); err != nil {
		return Params{}, 0, err
	}
	r, err := DetectRelease(head)
	if err != nil {
		return Params{}, 0, err
	}
	s := buf[:r.ParamsLen()]
	if err := readFull(from, s[len(head):]); err != nil {
		return Params{}, 0, err
	}
	p, n, err := ParseParams(s, r)
	if err != nil {
		return Params{}, 0, err
	}
	sizes := make([]byte, 8*n)
	if err := readFull(from, sizes); err != nil {
		return Params{}, 0, err
	}
	return p, r, p.ParseSizes(sizes)
}

// ExchangeVector sends a vector and receives the peer's, of at most limit bytes.
func (c *Conn) ExchangeVector(v []byte, limit int) ([]byte, error) {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(v)), uint64(len(v)))
	if err := c.write(append(b, v...)); err != nil {
		return nil, err
	}
	return readVector(c.c, limit)
}

func readVector(from io.Reader, limit int) ([]byte, error) {
	var head [8]byte
	if err := readFull(from, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(head[:])
	if n > uint64(limit) {
		return nil, invalid("the peer announces %d bytes, the limit is %d", n, limit)
	}
	v := make([]byte, n)
	return v, readFull(from, v)
}

// ExchangeStatus sends a status and receives the peer's.
func (c *Conn) ExchangeStatus(s ucs.Status) (ucs.Status, error) {
	v, err := c.ExchangeVector([]byte{byte(s)}, 1)
	if err != nil {
		return 0, err
	}
	if len(v) != 1 {
		return 0, invalid("empty status")
	}
	peer := ucs.Status(int8(v[0]))
	if peer > ucs.InProgress {
		return 0, invalid("status %d", int8(v[0]))
	}
	return peer, nil
}

// barrierMagic is the number that both sides send in a barrier (sock_rte_barrier in perftest.c).
// Barriers have no identity and no number.
const barrierMagic = 0xdeadbeef

// Barrier waits until the peer calls it too. It calls progress while it waits, because the other
// side's messages may still need it. progress returns the number of events it handled.
func (c *Conn) Barrier(progress func() int) error {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], barrierMagic)
	if err := c.write(b[:]); err != nil {
		return err
	}
	for got, idle := 0, 0; got < len(b); {
		n, err := c.tryRead(b[got:])
		if err != nil {
			return err
		}
		got += n
		switch {
		case progress() > 0 || n > 0:
			idle = 0
		case idle < idleSpins:
			idle++
			runtime.Gosched()
		default:
			if err := c.pollReadable(); err != nil {
				return err
			}
		}
	}
	if m := binary.LittleEndian.Uint32(b[:]); m != barrierMagic {
		return invalid("barrier value %#x", m)
	}
	return nil
}

// idleSpins is the number of rounds without progress after which Barrier sleeps, for at most
// pollMillis at a time, as C does. The sleep is short because the transport may have work that no
// socket signals.
const (
	idleSpins  = 1000
	pollMillis = 1
)

// tryRead reads the bytes that have arrived.
func (c *Conn) tryRead(b []byte) (n int, err error) {
	ctlErr := c.raw.Read(func(fd uintptr) bool {
		n, err = unix.Read(int(fd), b)
		return true
	})
	switch {
	case ctlErr != nil:
		return 0, ctlErr
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read: %w: %w", err, ucs.ErrConnectionReset)
	case n == 0:
		return 0, errClosed
	}
	return n, nil
}

// Alive returns an error if the peer has closed the connection. It reads nothing.
func (c *Conn) Alive() (err error) {
	var n int
	ctlErr := c.raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	switch {
	case ctlErr != nil:
		return ctlErr
	case err == unix.EAGAIN || err == unix.EINTR:
		return nil
	case err != nil:
		return fmt.Errorf("recvfrom: %w: %w", err, ucs.ErrConnectionReset)
	case n == 0:
		return errClosed
	}
	return nil
}

// pollReadable waits for bytes to read, at most pollMillis.
func (c *Conn) pollReadable() (err error) {
	ctlErr := c.raw.Control(func(fd uintptr) {
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, pollMillis)
	})
	if ctlErr != nil {
		return ctlErr
	}
	if err == unix.EINTR {
		return nil
	}
	return err
}

func (c *Conn) write(b []byte) error {
	if _, err := c.c.Write(b); err != nil {
		return fmt.Errorf("%w: %w", err, ucs.ErrConnectionReset)
	}
	return nil
}

var errClosed = fmt.Errorf("the peer closed the connection: %w", ucs.ErrConnectionReset)

// readFull fills b.
func readFull(from io.Reader, b []byte) error {
	_, err := io.ReadFull(from, b)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errClosed
	case errors.Is(err, unix.ECONNRESET):
		return fmt.Errorf("%w: %w", err, ucs.ErrConnectionReset)
	}
	return fmt.Errorf("%w: %w", err, ucs.ErrIO)
}
