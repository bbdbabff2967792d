//go:build linux

package tcp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// handshakeRecord puts a payload into a record of the type of handshake messages.
func handshakeRecord(payload string) []byte {
	n := len(payload)
	return append([]byte{22, 3, 1, byte(n >> 8), byte(n)}, payload...)
}

// TestTLSStrangers: invalid bytes instead of a handshake end their connection, and nothing else.
func TestTLSStrangers(t *testing.T) {
	ucttest.NoLeaks(t)
	ca := certtest.New()
	a, h := tlsHost(t, ca.Mutual("alice")), tlsHost(t, ca.Mutual("bob"))
	ep := a.connect(h)
	until(t, "connect", connected(ep), a, h)
	refusals := h.iface.refusals
	for name, sent := range map[string][]byte{
		"a peer without TLS":         flight(addr("127.0.0.1:5"), 0),
		"another protocol":           []byte("GET / HTTP/1.0\r\n\r\n"),
		"SSL 2":                      {0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10},
		"a record of 64 KiB":         {22, 3, 1, 0xff, 0xff},
		"an empty record":            handshakeRecord(""),
		"a message of 16 MiB":        handshakeRecord("\x01\xff\xff\xff"),
		"a finished before anything": handshakeRecord("\x14\x00\x00\x04abcd"),
		"a hello without content":    handshakeRecord("\x01\x00\x00\x00"),
		"data before anything":       {23, 3, 3, 0, 4, 1, 2, 3, 4},
		"an alert":                   {21, 3, 1, 0, 2, 2, 40},
	} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, h)
			p.send(sent)
			if name == "an empty record" {
				p.send(sent, sent, sent, sent, sent, sent, sent, sent, sent, sent, sent, sent, sent, sent, sent, sent, sent, sent, sent)
			}
			p.untilClosed()
			left(t, h, 1)
		})
	}
	for name, change := range map[string]func(*tls.Config){
		"TLS 1.2":          func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
		"no protocol":      func(c *tls.Config) { c.NextProtos = nil },
		"another protocol": func(c *tls.Config) { c.NextProtos = []string{"h2"} },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := ca.Mutual("carol")
			cfg.NextProtos = []string{alpn}
			change(cfg)
			p := &tlsPeer{t: t, h: h}
			p.tc = startTLS(t, h, cfg)
			var err error
			p.meanwhile(func() {
				if err = p.tc.Handshake(); err == nil {
					_, err = p.tc.Read(make([]byte, 1))
				}
			})
			if err == nil {
				t.Error("accepted")
			}
			p.tc.NetConn().Close()
			left(t, h, 1)
		})
	}
	if h.iface.refusals < refusals+10 || ledger.Refusals(ledger.Handshake) < 10 {
		t.Errorf("%d refusals are counted", h.iface.refusals)
	}
	ep.AMShort(2, 0, []byte("alive"), 0, nil)
	until(t, "the other connection", func() bool { return len(h.got) == 1 }, a, h)
	a.close()
	h.close()
}

// TestTLSSlow: peers that are too slow in the handshake, or too many, are disconnected. Other peers
// can always connect.
func TestTLSSlow(t *testing.T) {
	ucttest.NoLeaks(t)
	ca := certtest.New()
	a, h := tlsHost(t, ca.Mutual("alice")), tlsHost(t, ca.Mutual("bob"))
	h.iface.bounds.handshake = 50 * time.Millisecond
	hello := helloOf(t, ca.Mutual("carol"))
	for _, n := range []int{0, 1, 5, len(hello) - 1, len(hello)} {
		p := dial(t, h)
		p.send(hello[:n])
		p.untilClosed()
		left(t, h, 0)
	}
	h.iface.bounds.handshake, h.iface.bounds.halfOpen = time.Hour, 8
	var crowd []*rawPeer
	for k := range 100 {
		p := dial(t, h)
		crowd = append(crowd, p)
		if k%2 == 0 {
			p.send(hello)
		}
		h.w.Progress()
		if k%25 == 10 {
			ep := a.connect(h)
			until(t, "connect in a crowd", connected(ep), a, h)
			ep.Close()
		}
	}
	if n := h.iface.svc.half.n; n > 8 {
		t.Errorf("%d connections in their handshake", n)
	}
	h.close() // with handshakes in progress
	a.close()
	for _, p := range crowd {
		p.close()
	}
}

// helloOf returns the first flight of a client.
func helloOf(t *testing.T, cfg *tls.Config) []byte {
	t.Helper()
	cfg.ServerName = "127.0.0.1"
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go tls.Client(near, cfg).Handshake()
	b := make([]byte, 64<<10)
	n, err := far.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// TestTLSLost: peers that disconnect during a handshake leave nothing behind, and do not count as
// refused.
func TestTLSLost(t *testing.T) {
	ucttest.NoLeaks(t)
	ca := certtest.New()
	h := tlsHost(t, ca.Mutual("bob"))
	hello := helloOf(t, ca.Mutual("carol"))
	for _, n := range []int{0, 3, 5, 100, len(hello)} {
		for _, reset := range []bool{false, true} {
			p := dial(t, h)
			p.send(hello[:n])
			until(t, "accept", func() bool { return h.iface.conns != nil }, h)
			if reset {
				p.reset()
			} else {
				p.close()
			}
			left(t, h, 0)
		}
	}
	if h.iface.refusals != 0 {
		t.Errorf("%d refusals", h.iface.refusals)
	}

	// An endpoint whose server disconnects tries again, as without TLS.
	l := listenRaw(t, h, false)
	ep := l.endpoint(h)
	for range 3 {
		p := l.accept(h)
		p.recv(recordHdr)
		p.reset()
	}
	if ep.attempts < 3 || len(h.errs) > 0 {
		t.Errorf("%d attempts, %v", ep.attempts, h.errs)
	}
	h.close()
}

// TestTLSChopped: bytes may arrive in pieces of any size, during the handshake and after it.
func TestTLSChopped(t *testing.T) {
	ca := certtest.New()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			most := []int{1, 7, 300, 5000}[seed%4]
			a, b := tlsHost(t, ca.Mutual("alice")), tlsHost(t, ca.Mutual("bob"))
			m := between(t, a, b)
			m.piece = func() int { return 1 + rnd.IntN(most) }
			m.until("connect", connected(m.ep))
			var next uint64
			b.iface.SetAMHandler(1, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
				if k := le.Uint64(data); k != next {
					t.Errorf("message %d instead of %d", k, next)
				}
				ucttest.SameBytes(t, "message", data[8:], ucttest.Pattern(len(data)-8, next))
				next++
				return nil
			})
			lengths := []int{0, 1, 100, 8000, 30000}
			if most < 10 {
				lengths = lengths[:3]
			}
			const messages = 100
			for k := range uint64(messages) {
				data := ucttest.Pattern(lengths[rnd.IntN(len(lengths))], k)
				m.until("send", func() bool { return m.ep.AMShort(1, k, data, 0, nil) != ucs.ErrNoResource })
			}
			m.until("messages", func() bool { return next == messages })
		})
	}
}

// TestTLSTampered: a bit changed in transit ends the connection, during the handshake or after it,
// and no wrong data is delivered.
func TestTLSTampered(t *testing.T) {
	ca := certtest.New()
	const seeds = 60
	found := 0
	for seed := range uint64(seeds) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		a, b := tlsHost(t, ca.Mutual("alice"), "MAX_CONN_RETRIES=1"), tlsHost(t, ca.Mutual("bob"))
		b.iface.SetAMHandler(1, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
			ucttest.SameBytes(t, "message", data[8:], ucttest.Pattern(len(data)-8, le.Uint64(data)))
			return nil
		})
		m := between(t, a, b)
		way := rnd.IntN(2)
		m.flip[way] = rnd.IntN([]int{3000, 1200}[way])
		var sent uint64
		rounds := 0 // since the change; the rest of a record with a larger length may never come
		m.until("the end", func() bool {
			if m.ep.AMShort(1, sent, ucttest.Pattern(100, sent), 0, nil) != ucs.ErrNoResource {
				sent++
			}
			if m.flip[way] < 0 {
				rounds++
			}
			return len(a.errs) > 0 || rounds > 200
		})
		if rounds <= 200 {
			found++
		}
		m.close()
		m.until("the end", func() bool { return len(a.errs) > 0 && b.iface.conns == nil })
		a.close()
		b.close()
	}
	if found < seeds*3/4 {
		t.Errorf("%d of %d changes were found out", found, seeds)
	}
}

// middle forwards between an endpoint of one host and the listener of another.
type middle struct {
	t     testing.TB
	hosts [2]*host
	ep    *endpoint
	ends  [2]*rawPeer // connections to the hosts
	piece func() int  // bytes forwarded at once
	flip  [2]int      // position of a byte from that host to change; negative: none
	held  [2][]byte   // not yet forwarded
}

// between makes an endpoint of a that connects to b through the middle.
func between(t testing.TB, a, b *host) *middle {
	t.Helper()
	m := &middle{t: t, hosts: [2]*host{a, b}, piece: func() int { return 1 << 20 }, flip: [2]int{-1, -1}}
	l := listenRaw(t, a, false)
	m.ep = l.endpoint(a)
	m.ends = [2]*rawPeer{l.accept(a), dial(t, b)}
	l.close()
	return m
}

func (m *middle) close() {
	m.ends[0].close()
	m.ends[1].close()
}

// forward moves some bytes in each direction, and forwards an end.
func (m *middle) forward() {
	for k, from := range m.ends {
		to := m.ends[1-k]
		if from.fd < 0 || to.fd < 0 {
			continue
		}
		if len(m.held[k]) == 0 {
			b := make([]byte, m.piece())
			n, err := unix.Read(from.fd, b)
			if err == unix.EAGAIN {
				continue
			}
			if n <= 0 {
				m.close()
				return
			}
			if f := &m.flip[k]; *f >= 0 {
				if *f < n {
					b[*f] ^= 0x10
				}
				*f -= n // negative once it was changed
			}
			m.held[k] = b[:n]
		}
		n, err := unix.SendmsgN(to.fd, m.held[k], nil, nil, unix.MSG_NOSIGNAL)
		if err != nil && err != unix.EAGAIN {
			m.close()
			return
		}
		m.held[k] = m.held[k][max(n, 0):]
	}
}

// until forwards and progresses both hosts until cond holds.
func (m *middle) until(what string, cond func() bool) {
	m.t.Helper()
	for range 1 << 20 {
		m.forward()
		n := m.hosts[0].w.Progress() + m.hosts[1].w.Progress()
		if cond() {
			return
		}
		if n == 0 && len(m.held[0])+len(m.held[1]) == 0 {
			m.wait()
		}
	}
	m.t.Fatalf("never happened: %s", what)
}

// wait sleeps until there is something to forward or to progress.
func (m *middle) wait() {
	var fds []unix.PollFd
	for _, p := range m.ends {
		if p.fd >= 0 {
			fds = append(fds, unix.PollFd{Fd: int32(p.fd), Events: unix.POLLIN})
		}
	}
	for _, h := range m.hosts {
		if h.w.Arm() != nil {
			return
		}
		fds = append(fds, unix.PollFd{Fd: int32(h.w.EventFD()), Events: unix.POLLIN})
	}
	unix.Poll(fds, 20)
}

// left waits until a host has this many connections.
func left(t *testing.T, h *host, want int) {
	t.Helper()
	until(t, fmt.Sprintf("%d connections are left", want), func() bool { return h.conns() == want }, h)
}

// untilClosed reads until the host closes the connection, and closes it.
func (p *rawPeer) untilClosed() {
	p.t.Helper()
	until(p.t, "the connection to be closed", func() bool {
		var b [1024]byte
		n, err := unix.Read(p.fd, b[:])
		return n == 0 && err == nil || n < 0 && err != unix.EAGAIN
	}, p.h)
	p.close()
}

// TestTLSNoAnswer: an endpoint does not wait for ever for a peer that accepts the connection and
// never completes the handshake.
func TestTLSNoAnswer(t *testing.T) {
	ucttest.NoLeaks(t)
	h := tlsHost(t, certtest.New().Mutual("alice"))
	h.iface.bounds.handshake = time.Millisecond
	l := listenRaw(t, h, false)
	ep := l.endpoint(h)
	until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
	if !errors.Is(h.errs[0], ucs.ErrTimedOut) || ep.attempts != 1 {
		t.Errorf("%v after %d attempts", h.errs[0], ep.attempts)
	}
	if what := h.errs[0].Error(); strings.Count(what, ucs.ErrTimedOut.Error()) != 1 {
		t.Errorf("it reads %q", what)
	}
	h.close()
}

// handshakeOf returns the handshake of an endpoint's connection.
func handshakeOf(ep *endpoint) *handshake {
	return ep.conn.tls.(*stream).pipe.below.(*handshake)
}

// TestTLSBusySelf: a worker that was not progressed for longer than the limit of a handshake does
// not fail a peer that has answered in time.
func TestTLSBusySelf(t *testing.T) {
	ca := certtest.New()
	a, b := tlsHost(t, ca.Mutual("alice")), tlsHost(t, ca.Mutual("bob"))
	a.iface.bounds.handshake = time.Hour
	ep := a.connect(b)
	until(t, "hello", func() bool { return ep.conn != nil && ep.conn.tls != nil }, a)
	h := handshakeOf(ep)
	until(t, "answer", func() bool {
		var one [1]byte
		n, _, _ := unix.Recvfrom(int(ep.conn.fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if n != 1 {
			h.onNotification() // send what a has to send, and nothing else
		}
		return n == 1
	}, b)
	h.late() // the timer expires after an hour
	until(t, "connect", connected(ep), a, b)
}

// TestTLSOwnTime: the time that this side computes in a handshake, or waits until it may compute,
// does not count against the peer.
func TestTLSOwnTime(t *testing.T) {
	ca := certtest.New()
	computes, goOn := make(chan struct{}), make(chan struct{})
	slow := ca.Mutual("alice")
	slow.VerifyConnection = func(tls.ConnectionState) error {
		close(computes)
		<-goOn
		return nil
	}
	a, b := tlsHost(t, slow), tlsHost(t, ca.Mutual("bob"))
	goOnce := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(goOnce)
	a.iface.bounds.handshake = time.Hour
	looks := func(h *handshake, want int) {
		t.Helper()
		for range stallLooks - 1 {
			h.late()
		}
		if h.looks != want {
			t.Errorf("%d looks count, want %d", h.looks, want)
		}
	}
	for range cap(crypto) {
		crypto <- struct{}{}
	}
	ep := a.connect(b)
	until(t, "hello", func() bool { return ep.conn != nil && ep.conn.tls != nil }, a)
	h := handshakeOf(ep)
	looks(h, 0)
	for range cap(crypto) {
		<-crypto
	}
	until(t, "a question", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.idle
	}, a)
	looks(h, stallLooks-1)
	until(t, "an answer", func() bool {
		select {
		case <-computes:
			return true
		default:
			return false
		}
	}, a, b)
	looks(h, stallLooks-1)
	goOnce()
	until(t, "connect", connected(ep), a, b)
}

// TestTLSTimersAreTheWorkers: crypto/tls closes its connection on a goroutine of its own, which
// must not touch the worker's timers.
func TestTLSTimersAreTheWorkers(t *testing.T) {
	ca := certtest.New()
	a, b := tlsHost(t, ca.Mutual("alice")), tlsHost(t, ca.Mutual("bob"))
	ep := a.connect(b)
	until(t, "hello", func() bool { return ep.conn != nil && ep.conn.tls != nil }, a)
	h := handshakeOf(ep)
	h.s.tls.NetConn().Close()
	if !h.limit.Stop() {
		t.Error("the timer was stopped")
	}
}

// TestTLSPanic: a function of the configuration that panics, or ends its goroutine, fails one
// handshake and nothing else. On its own side the error has the value of the panic.
func TestTLSPanic(t *testing.T) {
	errOurs := errors.New("ours")
	for _, how := range []string{"panic", "error", "goexit"} {
		for _, server := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s server %v", how, server), func(t *testing.T) {
				ucttest.NoLeaks(t)
				ca := certtest.New()
				var bad atomic.Bool
				bad.Store(true)
				broken := ca.Mutual("peer")
				broken.VerifyConnection = func(tls.ConnectionState) error {
					switch {
					case !bad.Load():
					case how == "panic":
						panic("in a callback")
					case how == "error":
						panic(errOurs)
					default:
						runtime.Goexit()
					}
					return nil
				}
				from, to := broken, ca.Mutual("peer")
				if server {
					from, to = to, from
				}
				a, b := tlsHost(t, from, "MAX_CONN_RETRIES=1"), tlsHost(t, to)
				before := ledger.Refusals(ledger.Panic)
				a.connect(b)
				until(t, "failure", func() bool { return len(a.errs) == 1 && b.iface.conns == nil }, a, b)
				var p *HandshakePanic
				switch found := errors.As(a.errs[0], &p); {
				case found != (!server && how != "goexit"):
					t.Errorf("failed with %v", a.errs[0])
				case found && !strings.Contains(string(p.Stack), "TestTLSPanic"):
					t.Errorf("the stack is %s", p.Stack)
				case found && errors.Is(a.errs[0], errOurs) != (how == "error"):
					t.Errorf("failed with %v", a.errs[0])
				}
				if n := ledger.Refusals(ledger.Panic) - before; n != 1 && how != "goexit" {
					t.Errorf("%d panics are counted", n)
				}
				bad.Store(false)
				until(t, "connect", connected(a.connect(b)), a, b)
				if len(crypto) != 0 {
					t.Errorf("%d handshakes seem to compute", len(crypto))
				}
				a.close()
				b.close()
			})
		}
	}
}

// panickingCache is a cache of sessions whose methods panic.
type panickingCache struct{}

func (panickingCache) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (panickingCache) Put(_ string, s *tls.ClientSessionState)    { panic("no room") }

// TestTLSPanicLater is the same for the session cache, which is called after the handshake, on the
// worker's goroutine.
func TestTLSPanicLater(t *testing.T) {
	ucttest.NoLeaks(t)
	ca := certtest.New()
	cfg := ca.Mutual("alice")
	cfg.ClientSessionCache = panickingCache{}
	a, b := tlsHost(t, cfg), tlsHost(t, ca.Mutual("bob"))
	a.connect(b)
	until(t, "failure", func() bool { return len(a.errs) == 1 }, a, b)
	var p *HandshakePanic
	if !errors.As(a.errs[0], &p) || p.Value != "no room" {
		t.Errorf("failed with %v", a.errs[0])
	}
	a.close()
	b.close()
}
