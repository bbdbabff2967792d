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

// handshake is a TLS handshake under way. It takes a millisecond of computing, calls
// what the application has put into its configuration, and crypto/tls cannot leave it
// in the middle, so it has a goroutine of its own. The socket stays the worker's: that
// feeds the goroutine what has arrived and writes what it says. So a handshake that
// waits for its peer costs no thread, and whoever closes the connection need not wait
// for anybody; only the iface's Close does.
//
// A peer has as long for it as one that connects has for its request (bounds): those
// who connect are in the halfOpenList, and when there are too many the oldest goes; an
// endpoint of ours whose peer takes longer fails. Time in which our own side was busy
// does not count for that. A peer that is stopped is taken for gone here, unlike without
// TLS, where nothing waits for it meanwhile.
type handshake struct {
	s *stream

	end context.CancelFunc // of the context that the application's callbacks see

	mu   sync.Mutex
	fed  sync.Cond // in or cut has changed
	in   []byte    // received, not yet read
	full bool      // nothing more is received until in has been read
	out  []byte    // said, not yet taken by the worker
	cut  error     // there will be no more in than this; why
	idle bool      // the goroutine waits for in
	over bool      // it is done
	err  error     // why it did not succeed
	news bulletin

	refused bool // it failed, and the peer is being told

	limit *event.Timer // ends one of ours
	looks int          // periods of that in which we waited for the peer
}

// feedMost bounds what is received for a handshake and not yet read by it.
const feedMost = 64 << 10

// crypto bounds the handshakes that compute at one time, so that strangers who begin
// many do not take the CPUs from those who communicate. One that waits for its peer
// is not counted.
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

// run is the goroutine.
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

// errEnded is for a function of the application that ends its goroutine.
var errEnded = errors.New("tls: a function of the configuration has ended the handshake's goroutine")

// late looks whether a handshake of ours takes too long. It looks several times, as a
// worker that was not progressed for all that time has yet to read what the peer said.
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

// period is the time between two looks.
func (h *handshake) period() time.Duration {
	return max(h.s.c.iface.bounds.handshake/stallLooks, 1)
}

// waits reports whether it is the peer's turn: neither does the goroutine compute, or
// wait until it may (crypto), nor has the worker something to do for it.
func (h *handshake) waits() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return h.s.c.blocked
	}
	return h.idle && !h.readable()
}

// take implements readWriter: it waits for bytes of the peer.
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

// put implements readWriter: it takes what is to be said to the peer.
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

// abandon makes the goroutine end: nobody waits for it any more.
func (h *handshake) abandon() {
	h.stopLimit()
	h.cutOff()
}

// cutOff is abandon for other goroutines than the worker's. If nobody else ends the
// connection, what becomes of the handshake does.
func (h *handshake) cutOff() {
	h.mu.Lock()
	h.in, h.cut = nil, errAbandoned
	h.fed.Signal()
	h.mu.Unlock()
	h.end()
}

// heard is called by the worker when the goroutine has something for it.
func (h *handshake) heard() {
	if h.s.events != nil && h.s.c.state != stateClosed {
		h.pump()
	}
}

// handle is told that the socket is ready.
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

// feed receives for the goroutine, once.
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

// pump writes what the goroutine has said, lets it have more to read, and goes on
// with the connection when it is done.
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

// flush writes and reports whether everything went. That a peer does not take what
// is said to it the goroutine learns when it reads.
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

// done goes on with the connection. The goroutine touches nothing any more.
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

// failed ends a connection whose handshake came to nothing.
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
		c.close() // it left, which may have any reason
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

// tellRefused lets the peer of a handshake that failed read why: a close with something
// unread would take that away from it. The connection ends when the peer has closed it,
// or its time is over.
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
