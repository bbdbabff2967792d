//go:build linux

package tcp

import (
	"crypto/tls"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs/event"
)

// stream is the TLS layer between a connection and its socket: the connection sends and
// receives through it. A stream belongs to the worker's goroutine, except for the parts that
// a handshake in progress uses.
//
// crypto/tls needs a net.Conn, which is pipe. After the handshake, Read of the pipe returns bytes
// of a record only once the whole record has arrived, so that crypto/tls never buffers bytes for
// which the event set reports nothing, and never blocks in the middle of a record. Write of the
// pipe always accepts everything, because crypto/tls treats a failed write as permanent and cannot
// repeat it later. Instead nothing is sealed while sealed bytes wait to be written.
type stream struct {
	c     *conn
	pipe  *pipe
	tls   *tls.Conn
	after *tls.ConnectionState // the result of the handshake; nil before its end

	// Functions of the handshake in progress; nil after its end.
	events  func(event.Events) // handles the events of the socket, instead of the connection
	abandon func()             // ends the handshake

	in     *buffer // received, not yet decrypted; nil if empty
	record int     // bytes left of the record that tls has begun to read
	rest   bool    // tls may have more bytes of a decrypted record

	out     *buffer // sealed (encrypted), not yet written; nil if empty
	sealed  int     // bytes of the connection's output that out contains
	flooded bool    // out had no room for replies of tls to the peer's key updates
}

// Sizes of records, and of the work done in one call, in bytes.
const (
	recordHdr  = 5
	recordMost = 16384 + 256 // largest payload of a record (RFC 8446, section 5.2)

	sealMost = 64 << 10 // largest output sealed in one call
	sealRoom = 16 << 10 // room for the bytes that sealing adds, and for records of tls itself
	openMost = 64 << 10 // largest input received in one call
)

// recordLen returns the length of the record at the beginning of b with its header, 0 if b is
// shorter than a header.
func recordLen(b []byte) int {
	if len(b) < recordHdr {
		return 0
	}
	return recordHdr + int(b[3])<<8 + int(b[4])
}

// ready reports whether tls.Read may return data: tls has the rest of a decrypted record, or may
// read a record.
func (s *stream) ready() bool { return s.rest || s.in != nil && s.whole() }

// whole reports whether s.in begins with a record that tls may read: a whole record, or one
// that is longer than the largest allowed, which tls rejects.
func (s *stream) whole() bool {
	b := s.in.data[s.in.r:s.in.w]
	n := recordLen(b)
	return n > 0 && (len(b) >= n || n > recordHdr+recordMost)
}

// handle implements layer.
func (s *stream) handle(ev event.Events) bool {
	if s.events == nil {
		return false
	}
	s.events(ev)
	return true
}

// state implements layer.
func (s *stream) state() *tls.ConnectionState { return s.after }

// read implements layer.
func (s *stream) read() (done int, more bool) {
	c := s.c
	b := s.openIn()
	space := b.data[b.w : b.w+openMost]
	n, errno := sys.Recv(int(c.fd), space)
	if n == 0 {
		s.closeIn(false)
		return c.readFailed(errno), false
	}
	b.w += n
	return s.drain() + 1, n == len(space)
}

// drain implements layer: it decrypts and handles all records that have arrived, because the event
// set would not wake the worker for them.
func (s *stream) drain() (done int) {
	c := s.c
	for c.state < stateStale && !c.paused && s.ready() {
		b := c.openIn()
		space := b.data[b.w : b.w+c.readSize(b)]
		n, err := s.open(space)
		s.rest = n == len(space)
		b.w += n
		done += c.parse()
		switch {
		case c.state >= stateStale:
		case s.flooded:
			c.refuse(errFlooded)
		case err != nil && err != errWouldBlock:
			s.failed(err)
		}
	}
	if c.state == stateClosed {
		return done
	}
	s.closeIn(true)
	if s.out != nil && !c.blocked {
		c.write()
	}
	return done
}

// open reads decrypted bytes from tls into space. tls calls the application's session cache when
// the peer sends tickets; a panic there becomes a HandshakePanic.
func (s *stream) open(space []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			p := &HandshakePanic{Value: v, Stack: stack()}
			s.c.logPanic(p)
			n, err = 0, p
		}
	}()
	return s.tls.Read(space)
}

// errFlooded ends a connection whose peer requests key updates without reading the replies.
var errFlooded = errors.New("tls: the peer requests key updates and does not read the replies")

// failed ends the connection after an error from reading tls.
func (s *stream) failed(err error) {
	c := s.c
	if err == io.EOF {
		c.readFailed(0)
		return
	}
	s.push() // the alert, which tells the peer the reason
	c.lost("read", &tlsError{err})
}

// openIn returns the receive buffer, with room for the largest receive call.
func (s *stream) openIn() *buffer {
	i := s.c.iface
	b := s.in
	if b != nil && len(b.data) == i.rxPool.size {
		if b.r > 0 {
			b.w = copy(b.data, b.data[b.r:b.w])
			b.r = 0
		}
		return b
	}
	s.in = i.rxPool.get()
	if b != nil {
		s.in.w = copy(s.in.data, b.data[b.r:b.w])
		i.svc.pieces.put(b)
	}
	return s.in
}

// closeIn shrinks the receive buffer until the next call: an empty buffer returns to its pool,
// the beginning of a record moves to a small buffer. moved says that something was received.
func (s *stream) closeIn(moved bool) {
	i := s.c.iface
	b := s.in
	if b == nil || len(b.data) != i.rxPool.size {
		return
	}
	defer s.charge(moved)
	s.in = nil
	if n := b.w - b.r; n > 0 {
		if s.in = i.svc.pieces.get(n, len(b.data)); s.in == nil {
			s.in = b
			return
		}
		s.in.w = copy(s.in.data, b.data[b.r:b.w])
	}
	i.rxPool.put(b)
}

// charge charges the connection's source for the buffers that hold incomplete frames and records,
// as conn.closeIn does.
func (s *stream) charge(moved bool) {
	held := 0
	for _, b := range []*buffer{s.in, s.c.in} {
		switch {
		case b == nil:
		case len(b.data) == s.c.iface.rxPool.size:
			held += b.w - b.r
		default:
			held += len(b.data)
		}
	}
	if slow := &s.c.iface.svc.slow; held > 0 {
		slow.add(s.c, held, moved)
	} else {
		slow.remove(s.c)
	}
}

// take implements readWriter: it copies received bytes of one record to p.
func (s *stream) take(p []byte) (int, error) {
	if s.in == nil || s.record == 0 && !s.whole() {
		return 0, errWouldBlock
	}
	b := s.in
	n := s.part(p, b.data[b.r:b.w])
	b.r += n
	if n == 0 {
		return 0, errWouldBlock
	}
	return n, nil
}

// part copies received bytes to p, up to the end of the current record, and returns their number.
func (s *stream) part(p, received []byte) int {
	if s.record == 0 {
		s.record = recordLen(received)
	}
	n := copy(p, received[:min(len(received), s.record)])
	s.record -= n
	return n
}

// put implements readWriter: it queues bytes that tls has sealed.
func (s *stream) put(p []byte) {
	if s.out == nil {
		s.out = poolOf(s.c.iface.svc.txPools, sealMost+sealRoom).get()
	}
	b := s.out
	if len(b.data)-b.w < len(p) {
		b.w = copy(b.data, b.data[b.r:b.w])
		b.r = 0
	}
	if len(b.data)-b.w < len(p) {
		s.flooded = true
		return
	}
	b.w += copy(b.data[b.w:], p)
}

// send implements layer: it seals the beginning of the connection's output, unless that is sealed
// already, and writes it. Sealed output counts as written only when all of it is written.
func (s *stream) send(output []byte) (n, want int, errno unix.Errno) {
	if s.sealed == 0 {
		k := min(len(output), sealMost)
		if _, err := s.tls.Write(output[:k]); err != nil || s.flooded {
			return 0, k, unix.EPIPE
		}
		s.sealed = k
	}
	if errno := s.push(); errno != 0 {
		return 0, s.sealed, errno
	}
	n, s.sealed = s.sealed, 0
	return n, n, 0
}

// begun implements layer.
func (s *stream) begun() bool { return s.sealed != 0 }

// push writes sealed bytes. EAGAIN means that the kernel did not take all of them.
func (s *stream) push() unix.Errno {
	b := s.out
	if b == nil {
		return 0
	}
	n, errno := sys.Send(int(s.c.fd), b.data[b.r:b.w], 0)
	if errno != 0 {
		return errno
	}
	b.r += n
	s.c.iface.svc.watch.sent(s.c)
	if b.r < b.w {
		return unix.EAGAIN
	}
	s.dropOut()
	return 0
}

func (s *stream) dropOut() {
	if s.out != nil {
		poolOf(s.c.iface.svc.txPools, sealMost+sealRoom).put(s.out)
		s.out = nil
	}
}

// flush implements layer.
func (s *stream) flush() bool {
	if s.out == nil || s.sealed != 0 {
		return true
	}
	switch errno := s.push(); errno {
	case 0:
		return true
	case unix.EAGAIN:
		s.c.block()
	default:
		s.c.lost("write", errno)
	}
	return false
}

// close implements layer: it releases the stream's buffers. It makes the goroutine of a handshake
// in progress end, but does not wait for it.
func (s *stream) close() {
	if s.abandon != nil {
		s.abandon()
	}
	if b := s.in; b != nil {
		s.in = nil
		if i := s.c.iface; len(b.data) == i.rxPool.size {
			i.rxPool.put(b)
		} else {
			i.svc.pieces.put(b)
		}
	}
	s.rest = false
	s.dropOut()
}

// tlsError is an error of TLS, not of the kernel: one side did not accept a handshake or a record.
// The connection is not retried.
type tlsError struct{ err error }

// Error implements error.
func (e *tlsError) Error() string { return e.err.Error() }

// Unwrap returns the error of crypto/tls.
func (e *tlsError) Unwrap() error { return e.err }
