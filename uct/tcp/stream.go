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

// stream is TLS below a connection: what the connection sends and receives goes
// through it instead of to the socket. It belongs to the worker's goroutine, but for
// what a handshake that is under way has of it.
//
// crypto/tls wants a net.Conn, which is pipe. Its Read is given whole records and
// never the beginning of one, so that tls keeps nothing that the event set does not
// tell of, and nothing blocks in the middle. Its Write takes everything: tls makes a
// write that failed permanent, so there is no asking for later. Instead nothing is
// sealed while sealed bytes wait.
type stream struct {
	c     *conn
	pipe  *pipe
	tls   *tls.Conn
	after *tls.ConnectionState // of the handshake

	// The handshake, until it is over.
	events  func(event.Events) // instead of the connection's
	abandon func()             // ends it

	in     *buffer // received, not yet opened; nil while there is nothing
	record int     // bytes that tls has not taken of the record it has begun to take
	rest   bool    // tls may have more of an opened record

	out     *buffer // sealed, not yet written; nil while there is nothing
	sealed  int     // bytes of the connection's output that out has
	flooded bool    // out was too small for what the peer made tls answer
}

// Sizes of records and of what is done at once, in bytes.
const (
	recordHdr  = 5
	recordMost = 16384 + 256 // of a record's payload (RFC 8446, section 5.2)

	sealMost = 64 << 10 // sealed in one go
	sealRoom = 16 << 10 // for what this adds, and for what tls has to say itself
	openMost = 64 << 10 // received in one call
)

// recordLen is the length of the record at the beginning of b, 0 if that is not
// known.
func recordLen(b []byte) int {
	if len(b) < recordHdr {
		return 0
	}
	return recordHdr + int(b[3])<<8 + int(b[4])
}

// ready reports whether tls has something to open.
func (s *stream) ready() bool { return s.rest || s.in != nil && s.whole() }

// whole reports whether a record is there that tls may take: all of it, or one that
// is longer than any may be.
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

// drain implements layer: it opens all records that are there. Nothing is left for
// which the event set would not wake anybody.
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

// open reads what tls opens. That calls the application's cache of sessions, when the
// peer gives tickets.
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

// errFlooded ends a connection whose peer asks for more new keys than it reads
// answers.
var errFlooded = errors.New("tls: the peer does not read the answers that it causes")

// failed handles the end of what tls can read.
func (s *stream) failed(err error) {
	c := s.c
	if err == io.EOF {
		c.readFailed(0)
		return
	}
	s.push() // the reason, for the peer
	c.lost("read", &tlsError{err})
}

// openIn returns the receive buffer with room for a largest call.
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

// closeIn leaves the receive buffer until the next call: not at all, or with just the
// beginning of a record. moved says that something was received.
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

// charge counts the buffers in which the beginnings of frames and records wait, as
// conn.closeIn does.
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

// take implements readWriter: it gives tls bytes of one record.
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

// part copies what tls may have of the bytes received, which is nothing behind the
// end of a record, and returns the number of bytes.
func (s *stream) part(p, received []byte) int {
	if s.record == 0 {
		s.record = recordLen(received)
	}
	n := copy(p, received[:min(len(received), s.record)])
	s.record -= n
	return n
}

// put implements readWriter: it takes what tls has sealed.
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

// send implements layer: it seals the beginning of the connection's output, unless
// that is done, and writes it. What is sealed counts as written when all of it is.
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

// push writes what is sealed. EAGAIN says that not all of it went.
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

// close implements layer: it gives back what the stream has. A handshake that is under
// way ends by itself.
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

// tlsError is a cause that is TLS's, not the kernel's: a handshake or a record that
// one of the two ends does not accept. It is not worth another attempt.
type tlsError struct{ err error }

// Error implements error.
func (e *tlsError) Error() string { return e.err.Error() }

// Unwrap makes the error match what crypto/tls says.
func (e *tlsError) Unwrap() error { return e.err }
