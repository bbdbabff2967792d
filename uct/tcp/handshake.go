//go:build linux

package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs/event"
)

// handshake is a TLS handshake in progress. A handshake has a goroutine of its own, because it
// takes a millisecond of computing, calls functions of the application's configuration, and cannot
// be suspended in the middle by crypto/tls. The worker keeps the socket: it passes received bytes
// to the goroutine and writes the goroutine's output. So a handshake that waits for its peer costs
// no thread, and a connection can be closed without waiting for the goroutine; only the iface's
// Close waits.
//
// The time for a handshake is the time that a peer has for its request (bounds.handshake). Accepted
// connections are in the halfOpenList, which drops the oldest when there are too many. An endpoint
// of this worker fails if its peer takes longer; time in which this side was busy does not count
// there. A stopped peer counts as gone here, unlike without TLS, where nothing waits for a stopped
// peer.
type handshake struct {
	s *stream

	end context.CancelFunc // cancels the context that the application's callbacks get

	mu           sync.Mutex
	fed          sync.Cond    // signals that in or cut has changed
	in           []byte       // received bytes that the goroutine has not read yet
	full         bool         // nothing more is received until in has been read
	out          []byte       // bytes written by crypto/tls, not yet taken by the worker
	inErr        error        // why nothing more will be received; nil: more may come
	idle         bool         // the goroutine waits for in
	over         bool         // the goroutine is done
	err          error        // why the handshake failed; nil: it succeeded
	notification notification // wakes the worker

	refused bool // the handshake failed, and the rest of the output is being sent

	limit *event.Timer // ends the handshake of an outgoing connection
	looks int          // periods of limit at whose end the handshake was waiting for the peer
}

// feedMost bounds the bytes that are received for a handshake and not yet read by it. At feedMost
// the worker stops receiving.
const feedMost = 64 << 10

// crypto is a semaphore for the handshakes that compute at one time, so that untrusted peers that
// begin many handshakes do not take the CPUs from established connections. A handshake that waits
// for its peer holds no slot.
var crypto = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// secure begins the TLS handshake of a connection whose socket is connected.
func secure(c *conn) {
	i := c.iface
	ctx, end := context.WithCancel(context.Background())
	s := &stream{c: c}
	h := &handshake{s: s, end: end}
	h.fed.L = &h.mu
	h.notification.callback = h.onNotification
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

// run is the body of the handshake's goroutine.
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
		h.s.c.iface.svc.notifier.notify(&h.notification)
	}()
	err = h.s.tls.HandshakeContext(ctx)
}

// errEnded is the error of a handshake in which a function of the application ended the
// goroutine (runtime.Goexit).
var errEnded = errors.New("tls: a function of the configuration called runtime.Goexit in the handshake")

// late is called when the timer in the field limit expires, on an outgoing connection. It ends the
// connection when it has found the handshake waiting for the peer stallLooks times. One check would
// not do: if the application made no progress for all that time, the worker has yet to read what
// the peer sent.
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

// waits reports whether the handshake waits for the peer: the goroutine neither computes nor waits
// for a slot in crypto, and the worker has nothing to do for it.
func (h *handshake) waits() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return h.s.c.blocked
	}
	return h.idle && !h.readable()
}

// take implements readWriter: it waits for bytes of the peer. The goroutine gives up its slot in
// crypto while it waits.
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
	if n == 0 && h.inErr != nil {
		return 0, h.inErr
	}
	h.in = h.in[n:]
	if len(h.in) == 0 && h.full {
		h.full = false
		h.s.c.iface.svc.notifier.notify(&h.notification)
	}
	return n, nil
}

// readable reports whether take has something to return.
func (h *handshake) readable() bool {
	return h.inErr != nil || len(h.in) > 0 && (h.s.record > 0 || len(h.in) >= recordHdr)
}

// put implements readWriter: it queues p for the peer, and wakes the worker.
func (h *handshake) put(p []byte) {
	h.mu.Lock()
	h.out = append(h.out, p...)
	h.mu.Unlock()
	h.s.c.iface.svc.notifier.notify(&h.notification)
}

var errAbandoned = errors.New("tls: the connection was closed in the handshake")

func (h *handshake) stopLimit() {
	if h.limit != nil {
		h.limit.Stop()
	}
}

// abandon makes the goroutine end. The worker calls it, and ignores the result of the handshake.
func (h *handshake) abandon() {
	h.stopLimit()
	h.cutOff()
}

// cutOff does what abandon does, but any goroutine may call it. The handshake then fails, which
// ends the connection unless something else has ended it.
func (h *handshake) cutOff() {
	h.mu.Lock()
	h.in, h.inErr = nil, errAbandoned
	h.fed.Signal()
	h.mu.Unlock()
	h.end()
}

// onNotification is called on the worker's goroutine when the handshake's goroutine has output, can take
// more input or is done.
func (h *handshake) onNotification() {
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
		h.inErr = io.EOF
	default:
		h.inErr = errno
	}
	pause := h.full || h.inErr != nil
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
	resume := !h.full && h.inErr == nil && !h.over
	done := h.over && (len(h.out) == 0 || h.inErr != nil)
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
// goroutine gets a write error when it reads next (inErr).
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
		if h.inErr == nil {
			h.inErr = errno
		}
		h.out = nil
		h.fed.Signal()
		h.mu.Unlock()
	}
	return false
}

// done continues with the connection after the handshake. The goroutine does not access h any more.
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
		i.unwanted(c.guestEntry.guest.account, c.from.addr)
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
	cut := h.inErr != nil && (errors.Is(err, h.inErr) || errors.Is(err, io.ErrUnexpectedEOF))
	if c.outgoing {
		switch {
		case !cut:
			c.lost("handshake", &tlsError{err})
		case h.inErr == io.EOF:
			c.lost("handshake", nil)
		default:
			c.lost("handshake", h.inErr)
		}
		return
	}
	if cut {
		c.close() // the peer has closed the connection, for an unknown reason
		return
	}
	c.iface.refusals++
	if c.guestEntry.guest.account.Refuse(ledger.Handshake) {
		c.iface.svc.w.Log().Warn("TLS handshake failed (further ones may not be logged)",
			zap.Stringer("listener", c.iface.addr), zap.Stringer("peer", c.from.addr), zap.Error(err))
	}
	if h.inErr != nil {
		c.close()
		return
	}
	h.refused = true
	h.tellRefused()
}

// tellRefused sends the peer of a failed handshake the rest of the output, such as the alert with
// the reason. The socket is only shut down for writing: closing it with unread input would send a
// reset, and the peer could lose the alert. The connection ends when the peer has closed it, or
// when its time is over.
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

// halfOpen is a connection's entry in the list of connections whose request has not arrived.
type halfOpen struct {
	prev, next *conn
	deadline   time.Duration // by the clock of the worker
	listed     bool
}

// halfOpenList holds the connections of a worker whose request has not arrived, the oldest
// first. Each connection has a deadline. When there are too many connections, the oldest of the
// source or network with the most is closed.
type halfOpenList struct {
	head, tail *conn
	n          int
	timer      *event.Timer
	armed      bool // timer runs
}

// waitForRequest adds a guest's connection to the list, and closes one if there are too many.
func (s *service) waitForRequest(c *conn) {
	l, h, b := &s.half, &c.half, &c.iface.bounds
	h.deadline, h.listed = s.w.Now()+b.handshake, true
	h.prev = l.tail
	if l.tail != nil {
		l.tail.half.next = c
	} else {
		l.head = c
	}
	l.tail = c
	l.n++
	g := c.guestEntry.guest
	g.addHalfOpen(1)
	if g.half > b.halfOpen/2 {
		l.dropOldest(g, nil)
	} else if l.n > b.halfOpen {
		s.evictHalfOpen(0, b.few)
	}
	s.timeHalfOpen()
}

// endHalfOpen removes c from the list, if it is listed.
func (s *service) endHalfOpen(c *conn) {
	h := &c.half
	if !h.listed {
		return
	}
	l := &s.half
	if h.prev != nil {
		h.prev.half.next = h.next
	} else {
		l.head = h.next
	}
	if h.next != nil {
		h.next.half.prev = h.prev
	} else {
		l.tail = h.prev
	}
	*h = halfOpen{}
	l.n--
	c.guestEntry.guest.addHalfOpen(-1)
}

// evictHalfOpen closes the oldest listed connection of the source or network that has the most
// listed connections, by the weights of ledger.NetWeight. Only sources and networks whose count
// exceeds the parameter many are considered. evictHalfOpen reports whether there was one.
func (s *service) evictHalfOpen(many, few int) bool {
	var most *guest
	var where *guestNetwork
	weight := 0
	for c := s.half.head; c != nil; c = c.half.next {
		g := c.guestEntry.guest
		if g.half > many && g.half > weight {
			most, where, weight = g, nil, g.half
		}
		for level, h := range g.networks {
			if w := ledger.NetWeight(h.half, s.half.n, level, few); h.half > many && w > weight {
				most, where, weight = nil, h, w
			}
		}
	}
	return weight > 0 && s.half.dropOldest(most, where)
}

// dropOldest closes the oldest listed connection of guest g, or of a guest in network h if h is not
// nil. It reports whether there was one.
func (l *halfOpenList) dropOldest(g *guest, h *guestNetwork) bool {
	for c := l.head; c != nil; c = c.half.next {
		if v := c.guestEntry.guest; v == g || h != nil && slices.Contains(v.networks, h) {
			c.dropHalfOpen(ledger.Connections)
			return true
		}
	}
	return false
}

func (c *conn) dropHalfOpen(r ledger.Reason) {
	if a := c.guestEntry.guest.account; a.Refuse(r) {
		c.iface.svc.w.Log().Diag("closing a connection that has sent no request", zap.Stringer("source", a.Source()), zap.Stringer("reason", r))
	}
	c.close()
}

// timeHalfOpen sets the timer to the first deadline. If the timer runs already, it need not be set,
// because the first deadline cannot become earlier.
func (s *service) timeHalfOpen() {
	l := &s.half
	if l.head == nil || l.armed {
		return
	}
	l.armed = true
	d := l.head.half.deadline - s.w.Now()
	if l.timer == nil {
		l.timer, _ = s.w.Timers().After(d, s.expireHalfOpen)
		return
	}
	l.timer.Reset(d)
}

// expireHalfOpen closes the connections whose deadline has passed.
func (s *service) expireHalfOpen() {
	l := &s.half
	l.armed = false
	now := s.w.Now()
	for l.head != nil && l.head.half.deadline <= now {
		l.head.dropHalfOpen(ledger.Silence)
	}
	s.timeHalfOpen()
}

// stop stops the timer.
func (l *halfOpenList) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
