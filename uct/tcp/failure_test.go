//go:build linux

package tcp

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// loaded is an endpoint with operations of every kind in progress.
type loaded struct {
	h     *host
	ep    *endpoint
	p     *rawPeer
	dones map[string]*done
	queue *queued

	other *endpoint // endpoint to another peer
	q     *rawPeer
}

func load(t *testing.T) *loaded {
	t.Helper()
	h := newHost(t, "", "SNDBUF=16k")
	l := &loaded{h: h, dones: make(map[string]*done)}
	l.other, l.q = outgoing(t, h)
	ep, p := narrow(t, h)
	l.ep, l.p = ep, p
	inProgress := func(what string, f func(d *done) error) {
		t.Helper()
		d := newDone()
		if err := f(d); err != ucs.InProgress {
			t.Fatalf("%s: %v", what, err)
		}
		l.dones[what] = d
	}
	inProgress("put", func(d *done) error {
		return ep.PutZcopy([]uct.IOV{{Data: []byte("x")}}, 1, nil, &d.comp)
	})
	ep.AMShort(1, 0, nil, 0, nil)
	inProgress("remote flush", func(d *done) error { return ep.Flush(uct.FlushRemote, &d.comp) })
	inProgress("short", func(d *done) error { return ep.AMShort(1, 0, nil, 0, &d.comp) })
	inProgress("zcopy", func(d *done) error {
		var iov []uct.IOV
		for range 6 {
			iov = append(iov, uct.IOV{Data: make([]byte, 10000)})
		}
		for {
			if err := ep.AMZcopy(2, nil, iov, 0, &d.comp); err != nil {
				return err
			}
		}
	})
	inProgress("local flush", func(d *done) error { return ep.Flush(uct.FlushLocal, &d.comp) })
	order := []string{}
	l.queue = &queued{ep: ep, order: &order}
	l.queue.add(t, "1")
	l.queue.add(t, "2")
	return l
}

// check expects every operation to have completed once, with an error. The short message was
// written, so it may have succeeded.
func (l *loaded) check(t *testing.T, want error) {
	t.Helper()
	for what, d := range l.dones {
		if d.n != 1 || !errors.Is(d.comp.Err, want) && !(what == "short" && d.comp.Err == nil) {
			t.Errorf("%s: told %d times, %v", what, d.n, d.comp.Err)
		}
	}
	n := 0
	l.ep.PendingPurge(func(*uct.Pending) { n++ })
	if n != 2 || len(*l.queue.order) != 0 {
		t.Errorf("%d of 2 pending requests were left, %v dispatched", n, *l.queue.order)
	}
}

// operations are all calls that a failed endpoint must refuse.
func operations(ep *endpoint) map[string]func() error {
	return map[string]func() error{
		"short":     func() error { return ep.AMShort(1, 0, nil, 0, nil) },
		"short iov": func() error { return ep.AMShortIOV(1, nil, 0, nil) },
		"bcopy":     func() error { _, err := ep.AMBcopy(1, text(""), 0, nil); return err },
		"bcopy now": func() error { _, err := ep.AMBcopy(1, text(""), uct.SendNow, nil); return err },
		"zcopy":     func() error { return ep.AMZcopy(1, nil, nil, 0, nil) },
		"put":       func() error { return ep.PutZcopy(nil, 0, nil, nil) },
		"flush":     func() error { return ep.Flush(uct.FlushLocal, nil) },
		"fence":     ep.Fence,
		"check":     func() error { return ep.Check(nil) },
		"pending":   func() error { return ep.PendingAdd(&uct.Pending{}) },
	}
}

// TestPeerFailure: when a peer disconnects, all operations complete, and the failure is reported
// once.
func TestPeerFailure(t *testing.T) {
	for _, how := range []string{"end", "reset"} {
		t.Run(how, func(t *testing.T) {
			l := load(t)
			if how == "reset" {
				l.p.reset()
			} else {
				l.p.close() // unread bytes cause a reset here, too
			}
			until(t, "failure", func() bool { return len(l.h.errs) > 0 }, l.h)
			for range 10 {
				l.h.w.Progress()
			}
			l.check(t, ucs.ErrConnectionReset)
			var e *Error
			if len(l.h.errs) != 1 || l.h.failed[0] != uct.Endpoint(l.ep) || !errors.As(l.h.errs[0], &e) || e.Peer != l.ep.peer.addrPort() {
				t.Fatalf("reported %v", l.h.errs)
			}
			for what, op := range operations(l.ep) {
				if err := op(); err != l.h.errs[0] {
					t.Errorf("%s after the failure: %v", what, err)
				}
			}
			l.ep.Close()
			l.ep.Close()
			// Other endpoints are unaffected.
			if err := l.other.AMShort(1, 0, nil, 0, nil); err != nil {
				t.Error(err)
			}
			l.q.recv(hdrLen + 8)
		})
	}
}

// TestPeerCloses: the stream ends without any output of this side.
func TestPeerCloses(t *testing.T) {
	h := newHost(t, "")
	ep, p := outgoing(t, h)
	p.close()
	until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
	if !errors.Is(h.errs[0], ucs.ErrConnectionReset) || h.failed[0] != uct.Endpoint(ep) {
		t.Errorf("%v", h.errs[0])
	}
}

// TestHalfClose: a peer that announces its end and closes its direction may still receive. A peer
// that is gone is detected.
func TestHalfClose(t *testing.T) {
	for _, gone := range []bool{false, true} {
		h := newHost(t, "")
		ep, p := outgoing(t, h)
		p.send(req(ep.peer, 0))
		p.want(ack)
		p.send(fin)
		until(t, "FIN", func() bool { return ep.conn.finished }, h)
		if gone {
			p.close()
			until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
			continue
		}
		unix.Shutdown(p.fd, unix.SHUT_WR)
		until(t, "the end", func() bool { return ep.conn.ended }, h)
		p.want(am(idKeepalive, ""))
		for range 3 {
			h.w.Progress()
		}
		if err := h.w.Arm(); err != nil {
			t.Errorf("arm: %v", err)
		}
		if err := ep.AMShort(1, 0, nil, 0, nil); err != nil {
			t.Errorf("send toward a peer that only receives: %v", err)
		}
		p.recv(hdrLen + 8)
		// Only output detects now that the peer is gone.
		p.close()
		ep.AMShort(1, 0, nil, 0, nil)
		until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
	}
}

func TestCancel(t *testing.T) {
	l := load(t)
	if err := l.ep.Flush(uct.FlushCancel, nil); err != nil {
		t.Fatal(err)
	}
	l.check(t, ucs.ErrCanceled)
	for what, op := range operations(l.ep) {
		if err := op(); !errors.Is(err, ucs.ErrCanceled) {
			t.Errorf("%s after the cancel: %v", what, err)
		}
	}
	l.p.close()
	for range 10 {
		l.h.w.Progress()
	}
	l.ep.Close()
	if len(l.h.errs) != 0 {
		t.Errorf("reported %v", l.h.errs)
	}
	exact(t, l.h, 1)
}

// TestCancelIdle: a canceled endpoint without partly written output receives until it is closed.
// The end of the peer's stream must not make it spin.
func TestCancelIdle(t *testing.T) {
	h := newHost(t, "")
	ep, p := outgoing(t, h)
	p.send(req(ep.peer, 0))
	p.want(ack)
	ep.Flush(uct.FlushCancel, nil)
	p.send(am(1, "in"))
	until(t, "message", func() bool { return len(h.got) == 1 }, h)
	p.close()
	until(t, "the end", func() bool { return h.conns() == 0 }, h)
	if h.w.Progress() != 0 || len(h.errs) != 0 {
		t.Errorf("still busy, or reported: %v", h.errs)
	}
}

func TestCloseUnderWay(t *testing.T) {
	l := load(t)
	l.ep.PendingPurge(func(p *uct.Pending) {})
	l.ep.Close()
	for what, d := range l.dones {
		if d.n != 1 || !errors.Is(d.comp.Err, ucs.ErrCanceled) && !(what == "short" && d.comp.Err == nil) {
			t.Errorf("%s: told %d times, %v", what, d.n, d.comp.Err)
		}
	}
	exact(t, l.h, 1)
	// Output that was completely accepted still reaches the peer.
	h := newHost(t, "")
	ep, p := outgoing(t, h)
	ep.AMShort(1, 0, nil, 0, nil)
	ep.AMShort(1, 0, nil, 0, nil)
	ep.Close()
	p.want(short(0), short(0))
	p.wantClosed()
}

// closer closes an object when an operation completes.
type closer struct {
	comp uct.Completion
	fn   func()
}

func (c *closer) Completed(*uct.Completion) { c.fn() }

func newCloser(fn func()) *uct.Completion {
	c := &closer{fn: fn}
	c.comp.Owner, c.comp.Count = c, 1
	return &c.comp
}

// TestCloseInCallbacks: endpoints and ifaces may be closed inside any callback.
func TestCloseInCallbacks(t *testing.T) {
	t.Run("endpoint in a completion", func(t *testing.T) {
		h := newHost(t, "")
		ep, p := outgoing(t, h)
		ep.AMShort(1, 0, nil, 0, nil)
		for range 3 {
			ep.AMShort(1, 0, nil, 0, newCloser(ep.Close))
		}
		h.w.Progress()
		p.want(short(0), short(0), short(0), short(0))
		p.wantClosed()
	})
	t.Run("endpoint in a failing completion", func(t *testing.T) {
		h := newHost(t, "")
		ep, p := outgoing(t, h)
		for range 3 {
			ep.PutZcopy([]uct.IOV{{Data: []byte("x")}}, 1, nil, newCloser(ep.Close))
		}
		p.reset()
		until(t, "the end", func() bool { return h.conns() == 0 }, h)
		h.w.Progress()
		if len(h.errs) != 0 {
			t.Errorf("a closed endpoint was reported: %v", h.errs)
		}
	})
	t.Run("endpoint in a completion of connecting", func(t *testing.T) {
		h := newHost(t, "")
		l := listenRaw(t, h, false)
		ep, _ := h.bare()
		closed := false
		ep.Check(newCloser(func() { closed = true; ep.Close() }))
		theirs := append([]byte{byte(l.addr.port >> 8), byte(l.addr.port)}, 3, 0, 0, 0, 0, 0, 0, 0)
		if err := ep.ConnectToEP(h.iface.DeviceAddress(), theirs[:ifaceAddrLen], theirs); err != nil {
			t.Fatal(err)
		}
		// The kernel connects before this side progresses, and the first write fails.
		fds := []unix.PollFd{{Fd: ep.conn.fd, Events: unix.POLLOUT}}
		if n, err := unix.Poll(fds, 1000); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		unix.Shutdown(int(ep.conn.fd), unix.SHUT_WR)
		until(t, "completion", func() bool { return closed }, h)
		exact(t, h, 0)
	})
	t.Run("endpoint in OnError", func(t *testing.T) {
		h := newHost(t, "")
		ep, p := outgoing(t, h)
		called := 0
		h.iface.reporter.OnError = func(e uct.Endpoint, user any, err error) {
			called++
			if _, ok := user.(*rawListener); !ok || e != uct.Endpoint(ep) {
				t.Errorf("told of %v, %v", e, user)
			}
			e.Close()
			h.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: h.iface.DeviceAddress(), IfaceAddr: h.iface.Address()})
		}
		p.reset()
		until(t, "failure", func() bool { return called > 0 }, h)
		h.w.Progress()
		if called != 1 {
			t.Errorf("told %d times", called)
		}
	})
	for _, what := range []string{"endpoint", "iface"} {
		t.Run(what+" in a handler", func(t *testing.T) {
			h := newHost(t, "")
			ep, p := outgoing(t, h)
			p.send(req(ep.peer, 0))
			p.want(ack)
			delivered := 0
			h.iface.SetAMHandler(1, func(*uct.Source, []byte, *uct.AMDesc) error {
				delivered++
				if what == "endpoint" {
					ep.Close()
				} else {
					h.iface.Close()
				}
				return nil
			})
			p.send(am(1, ""), am(1, ""))
			until(t, "message", func() bool { return delivered > 0 }, h)
			if what == "iface" {
				p.want(fin)
				p.wantClosed()
				if delivered != 1 {
					t.Error("delivered after the iface was closed")
				}
				return
			}
			// The connection stays for the peer.
			p.want(fin)
			until(t, "second message", func() bool { return delivered == 2 }, h)
			exact(t, h, 1)
		})
	}
	t.Run("sending from completions for ever", func(t *testing.T) {
		h := newHost(t, "")
		ep, p := outgoing(t, h)
		sent := 0
		var again func()
		again = func() {
			sent++
			if ep.AMShort(1, 0, nil, 0, newCloser(again)) == nil {
				ep.AMShort(1, 0, nil, 0, newCloser(again))
			}
		}
		again()
		for range 50 {
			before := sent
			h.w.Progress()
			if sent > before+4 {
				t.Fatalf("%d sends in one round", sent-before)
			}
			p.pendingBytes()
		}
		if sent < 25 {
			t.Errorf("only %d sends in 50 rounds", sent)
		}
	})
}

// TestUnhandledFailure: failures without OnError are logged.
func TestUnhandledFailure(t *testing.T) {
	h := newHost(t, "")
	_, p := outgoing(t, h)
	h.iface.reporter.OnError = nil
	p.reset()
	until(t, "the end", func() bool { return h.conns() == 0 }, h)
	h.w.Progress()
}

func TestUnknownMessage(t *testing.T) {
	a, b, ep := pair(t)
	b.iface.SetAMHandler(3, nil)
	ep.AMBcopy(3, text("b"), 0, nil)
	ep.AMBcopy(4, text("c"), 0, nil)
	until(t, "message", func() bool { return len(b.got) == 1 }, a, b)
	if b.got[0] != (message{4, "c"}) {
		t.Errorf("%v", b.got)
	}
	// A handler that refuses a message ends its sender's connection.
	b.iface.SetAMHandler(5, func(*uct.Source, []byte, *uct.AMDesc) error { return ucs.ErrInvalidParam })
	ep.AMBcopy(5, text("mad"), 0, nil)
	until(t, "failure", func() bool { return len(a.errs) == 1 }, a, b)
	exact(t, b, 0)
}

func TestNoDescriptorsLeak(t *testing.T) {
	before := openFDs(t)
	for range 3 {
		a, b, ep := pair(t)
		back := b.connect(a)
		until(t, "connect", connected(back), a, b)
		a.connect(b)
		ep.Close()
		dial(t, a).close()
		a.close()
		b.close()
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestEndSource: after EndSource the peer's endpoint fails, as it will get no replies, and what it
// has sent before arrives. A connection that an endpoint here sends on is unaffected.
func TestEndSource(t *testing.T) {
	for _, answered := range []bool{false, true} {
		h, other := newHost(t, ""), newHost(t, "")
		ep := other.connect(h)
		until(t, "connection", connected(ep), h, other)
		c := h.iface.conns
		if answered {
			until(t, "connection", connected(h.connect(other)), h, other)
		}
		if err := ep.AMShort(1, 0, []byte("last"), 0, nil); err != nil {
			t.Fatal(err)
		}
		other.w.Progress() // the message is sent
		c.EndSource()
		if !answered {
			until(t, "end of the endpoint", func() bool { return ep.err != nil }, other)
		}
		n := len(h.got)
		until(t, "message", func() bool { return len(h.got) > n }, h, other)
		if (ep.err != nil) == answered {
			t.Errorf("answered %v: the endpoint has ended with %v", answered, ep.err)
		}
	}
}
