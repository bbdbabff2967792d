//go:build linux

package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs/event"
)

// handshake is a TLS handshake in progress. A handshake has a goroutine of its own, because
// it takes a millisecond of computing, calls functions of the application's configuration,
// and cannot be suspended in the middle by crypto/tls. The worker keeps the socket: it feeds
// the goroutine with what has arrived and writes the goroutine's output. So a handshake that
// waits for its peer costs no thread, and a connection can be closed without waiting for the
// goroutine; only the iface's Close waits.
//
// The time for a handshake is the time that a peer has for its request (bounds.handshake).
// Accepted connections are in the halfOpenList, which drops the oldest when there are too
// many. An endpoint of this worker fails if its peer takes longer; time in which this side
// was busy does not count there. A stopped peer is taken for gone here, unlike without TLS,
// where nothing waits for a stopped peer.
type handshake struct {
	s *stream

	end context.CancelFunc // cancels the context that the application's callbacks get

	mu   sync.Mutex
	fed  sync.Cond // in or cut has changed
	in   []byte    // received, not yet read
	full bool      // nothing more is received until in has been read
	out  []byte    // written by crypto/tls, not yet taken by the worker
	cut  error     // why nothing more will be received; nil: more may come
	idle bool      // the goroutine waits for in
	over bool      // the goroutine is done
	err  error     // why the handshake failed; nil: it succeeded
	news bulletin

	refused bool // the handshake failed, and the peer is being sent the rest of the output

	limit *event.Timer // ends the handshake of an outgoing connection
	looks int          // periods of limit at whose end the handshake was waiting for the peer
}

// feedMost bounds what is received for a handshake and not yet read by it, in bytes: at
// feedMost the worker stops receiving.
const feedMost = 64 << 10

// crypto bounds the handshakes that compute at one time, so that unknown peers that begin
// many handshakes do not take the CPUs from established connections. A handshake that waits
// for its peer is not counted.
var crypto = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// secure begins the handshake of a connection whose socket is connected.
func secure(c *conn) {
	i := c.iface
	ctx, end := context.WithCancel(context.Background())
	s := &stream{c: c}
	h := &handshake{s: s, end: end}
	h.fed.L = &h.mu
	h.news.heard = h.heard
	s.events, s.abandon = h.handle, h.abandon
	s.pipe = &pipe{below: h, end: h.cutOff, local: i.addr.addrPort(), remote: c.from.addr}
	if c.outgoing {
		s.tls = tls.Client(s.pipe, forPeer(i.md.tls, c.from.addr.Addr()))
	} else {
		s.tls = tls.Server(s.pipe, i.md.tls)
	}
	c.tls = s
	if c.outgoing {
		var err error
		if h.limit, err = i.svc.w.Timers().After(h.period(), h.late); err != nil {
			end()
			c.lost("handshake", err)
			return
		}
	}
	i.handshakes.Add(1)
	go func() {
		defer i.handshakes.Done()
		h.run(ctx)
	}()
}

// run is the body of the goroutine.
func (h *handshake) run(ctx context.Context) {
	defer h.end()
	crypto <- struct{}{}
	err := error(errEnded)
	defer func() {
		<-crypto
		if v := recover(); v != nil {
			err = &HandshakePanic{Value: v, Stack: stack()}
		}
		h.mu.Lock()
		h.over, h.err = true, err
		h.mu.Unlock()
		h.s.c.iface.svc.news.tell(&h.news)
	}()
	err = h.s.tls.HandshakeContext(ctx)
}

// errEnded is the error of a handshake in which a function of the application ended the
// goroutine (runtime.Goexit).
var errEnded = errors.New("tls: a function of the configuration has ended the handshake's goroutine")

// late is called by the timer limit of an outgoing connection. It ends the connection when it
// has found the handshake waiting for the peer stallLooks times. One check would not do: a
// worker that was not progressed for all that time has yet to read what the peer sent.
func (h *handshake) late() {
	c := h.s.c
	if c.state == stateClosed || h.s.events == nil {
		return
	}
	if h.waits() {
		h.looks++
	}
	if h.looks >= stallLooks || h.limit.Reset(h.period()) != nil {
		c.lost("handshake", errLate)
	}
}

// period is the time between two checks by late.
func (h *handshake) period() time.Duration {
	return max(h.s.c.iface.bounds.handshake/stallLooks, 1)
}

// waits reports whether the handshake waits for the peer: the goroutine neither computes nor
// waits for its place in crypto, and the worker has nothing to do for it.
func (h *handshake) waits() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return h.s.c.blocked
	}
	return h.idle && !h.readable()
}

// take implements readWriter: it waits for bytes of the peer. The goroutine gives up its
// place in crypto while it waits.
func (h *handshake) take(p []byte) (int, error) {
	h.mu.Lock()
	if !h.readable() {
		<-crypto
		h.idle = true
		for !h.readable() {
			h.fed.Wait()
		}
		h.idle = false
		h.mu.Unlock()
		crypto <- struct{}{}
		h.mu.Lock()
	}
	defer h.mu.Unlock()
	n := h.s.part(p, h.in)
	if n == 0 && h.cut != nil {
		return 0, h.cut
	}
	h.in = h.in[n:]
	if len(h.in) == 0 && h.full {
		h.full = false
		h.s.c.iface.svc.news.tell(&h.news)
	}
	return n, nil
}

// readable reports whether take has something to return.
func (h *handshake) readable() bool {
	return h.cut != nil || len(h.in) > 0 && (h.s.record > 0 || len(h.in) >= recordHdr)
}

// put implements readWriter: it queues p for the peer, and wakes the worker.
func (h *handshake) put(p []byte) {
	h.mu.Lock()
	h.out = append(h.out, p...)
	h.mu.Unlock()
	h.s.c.iface.svc.news.tell(&h.news)
}

var errAbandoned = errors.New("tls: the connection was closed in the handshake")

func (h *handshake) stopLimit() {
	if h.limit != nil {
		h.limit.Stop()
	}
}

// abandon makes the goroutine end. Its result is ignored.
func (h *handshake) abandon() {
	h.stopLimit()
	h.cutOff()
}

// cutOff is abandon for goroutines other than the worker's. The handshake then fails, which
// ends the connection unless something else has ended it.
func (h *handshake) cutOff() {
	h.mu.Lock()
	h.in, h.cut = nil, errAbandoned
	h.fed.Signal()
	h.mu.Unlock()
	h.end()
}

// heard is called by the worker when the goroutine has something for the worker.
func (h *handshake) heard() {
	if h.s.events != nil && h.s.c.state != stateClosed {
		h.pump()
	}
}

// handle is called with the events of the socket.
func (h *handshake) handle(ev event.Events) {
	c := h.s.c
	if ev&event.Write != 0 {
		c.blocked = false
	}
	if ev&(event.Read|event.Err|event.Hup) != 0 {
		h.feed()
	}
	if c.state != stateClosed {
		h.pump()
	}
}

// feed makes one receive call for the goroutine. After a refused handshake it discards what
// it receives, and closes the connection at the end of the stream.
func (h *handshake) feed() {
	c := h.s.c
	b := c.iface.rxPool.get()
	defer c.iface.rxPool.put(b)
	n, errno := sys.Recv(int(c.fd), b.data[:feedMost])
	if n == 0 && errno == unix.EAGAIN {
		return
	}
	if h.refused {
		if n == 0 {
			c.close()
		}
		return
	}
	h.mu.Lock()
	switch {
	case n > 0:
		h.in = append(h.in, b.data[:n]...)
		h.full = len(h.in) >= feedMost
	case errno == 0:
		h.cut = io.EOF
	default:
		h.cut = errno
	}
	pause := h.full || h.cut != nil
	h.fed.Signal()
	h.mu.Unlock()
	if pause {
		c.watch(c.watched &^ event.Read)
	}
}

// pump writes the goroutine's output, resumes receiving when the goroutine may have more
// input, and calls done when the goroutine is done.
func (h *handshake) pump() {
	s, c := h.s, h.s.c
	if h.refused {
		h.tellRefused()
		return
	}
	for more := true; more; {
		h.mu.Lock()
		n := len(h.out)
		if n > 0 && s.out == nil {
			n = min(n, sealMost)
			s.put(h.out[:n])
			h.out = h.out[n:]
		}
		more = len(h.out) > 0
		h.mu.Unlock()
		if c.blocked || !h.flush() {
			more = false
		}
	}
	h.mu.Lock()
	resume := !h.full && h.cut == nil && !h.over
	done := h.over && (len(h.out) == 0 || h.cut != nil)
	h.mu.Unlock()
	switch {
	case done:
		h.done()
	case resume:
		if err := c.watch(c.watched | event.Read); err != nil {
			c.lost("handshake", err)
		}
	}
}

// flush writes the output of the stream and reports whether all of it was written. The
// goroutine gets a write error when it reads next (cut).
func (h *handshake) flush() bool {
	c := h.s.c
	switch errno := h.s.push(); errno {
	case 0:
		if c.watched&event.Write != 0 {
			c.watch(c.watched &^ event.Write)
		}
		return true
	case unix.EAGAIN:
		c.block()
	default:
		h.s.dropOut()
		h.mu.Lock()
		if h.cut == nil {
			h.cut = errno
		}
		h.out = nil
		h.fed.Signal()
		h.mu.Unlock()
	}
	return false
}

// done continues with the connection after the handshake. The goroutine touches nothing any
// more.
func (h *handshake) done() {
	s, c := h.s, h.s.c
	state := s.tls.ConnectionState()
	err := h.err
	if err == nil {
		err = checkState(&state)
	}
	if err != nil {
		h.failed(err)
		return
	}
	h.stopLimit()
	s.events, s.abandon, s.after = nil, nil, &state
	if i := c.iface; !c.outgoing && i.accept != nil && !i.accept(c.SourceInfo()) {
		i.unwanted(c.visit.guest.account, c.from.addr)
		c.close()
		return
	}
	s.pipe.below = s
	if len(h.in) > 0 {
		b := s.openIn()
		b.w = copy(b.data, h.in)
		s.closeIn(true)
	}
	if err := c.watch(c.watched | event.Read); err != nil {
		c.lost("handshake", err)
		return
	}
	if c.outgoing {
		c.established()
	}
	if c.state != stateClosed {
		s.drain()
	}
}

// failed ends a connection whose handshake failed.
func (h *handshake) failed(err error) {
	c := h.s.c
	if p, ok := err.(*HandshakePanic); ok {
		c.logPanic(p)
	}
	cut := h.cut != nil && (errors.Is(err, h.cut) || errors.Is(err, io.ErrUnexpectedEOF))
	if c.outgoing {
		switch {
		case !cut:
			c.lost("handshake", &tlsError{err})
		case h.cut == io.EOF:
			c.lost("handshake", nil)
		default:
			c.lost("handshake", h.cut)
		}
		return
	}
	if cut {
		c.close() // the peer left, which may have any reason
		return
	}
	c.iface.refusals++
	if c.visit.guest.account.Refuse(ledger.Handshake) {
		c.iface.svc.w.Log().Warn("TLS handshake failed; there may be more, which are not logged",
			zap.Stringer("listener", c.iface.addr), zap.Stringer("peer", c.from.addr), zap.Error(err))
	}
	if h.cut != nil {
		c.close()
		return
	}
	h.refused = true
	h.tellRefused()
}

// tellRefused sends the peer of a failed handshake the rest of the output, such as the alert
// with the reason. The socket is only shut down for writing: closing it with unread input
// would take the alert away from the peer. The connection ends when the peer has closed it,
// or when its time is over.
func (h *handshake) tellRefused() {
	c := h.s.c
	if c.blocked {
		return
	}
	switch h.s.push() {
	case 0:
		unix.Shutdown(int(c.fd), unix.SHUT_WR)
		if c.watch(event.Read) != nil {
			c.close()
		}
	case unix.EAGAIN:
		c.block()
	default:
		c.close()
	}
}
