//go:build linux

package interop

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// Closing over RDMA devices while there are messages that the peer receives later.

// closingSizes has a size of each class: short, copied, fragmented and, unless disabled,
// rendezvous.
var closingSizes = []int{8, 2000, 8000, 30_000, 1 << 20}

// lateMessage is a message that is received after its sender has closed.
type lateMessage struct {
	message
	request int
	active  bool
}

// closesBefore sends messages of all kinds from one side and closes its endpoint, and then receives
// them at the other. All messages arrive and all requests succeed. A close of the Go side waits for
// that; C's may end before.
func (p *pair) closesBefore(from, to *peer) error {
	var list []lateMessage
	if err := to.handler(amID, "keep"); err != nil {
		return err
	}
	for _, size := range closingSizes {
		for _, mode := range []string{"async", "sync"} {
			m := lateMessage{message: p.msgs.next(size)}
			var err error
			if m.request, err = from.send(ep, m.message, "contig", mode); err != nil {
				return err
			}
			list = append(list, m)
		}
		m := lateMessage{message: p.msgs.next(size), active: true}
		var err error
		if m.request, err = from.activeSend(ep, amID, 8, m.message, "contig", "plain"); err != nil {
			return err
		}
		list = append(list, m)
	}
	closing := from.request()
	if err := from.do("close", closing, ep, "flush"); err != nil {
		return err
	}
	for _, side := range []*peer{to, from} {
		if err := side.do("progress", 20); err != nil {
			return err
		}
	}
	ended := false
	switch got, err := from.waitFor(closing, 0, time.Millisecond); {
	case errors.Is(err, errTimeout):
	case err == nil && got.status == ucs.OK && from.isC():
		ended = true
	default:
		return fmt.Errorf("%s: the close is over before its messages are received: %v, %v", from.name, got.status, err)
	}
	for _, m := range list {
		var err error
		if m.active {
			err = to.activeLate(m.message)
		} else {
			var r int
			if r, err = to.recv(m.tag, fullMask, m.size, "contig"); err == nil {
				err = to.received(r, m.message)
			}
		}
		if err != nil {
			return fmt.Errorf("%d bytes, active: %v: %w", m.size, m.active, err)
		}
	}
	for _, m := range list {
		if err := from.finish(m.request); err != nil {
			return fmt.Errorf("send of %d bytes, active: %v: %w", m.size, m.active, err)
		}
	}
	if !ended {
		if err := from.finish(closing); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	return from.unfailed()
}

// activeLate receives an active message that has arrived or was offered.
func (p *peer) activeLate(m message) error {
	offered, _, err := p.activeNext(amID, 8, m)
	if err != nil {
		return err
	}
	if offered {
		return p.activeReceive(m, "contig")
	}
	return p.activeData(m)
}

// unfailed checks that the error handler was not called.
func (p *peer) unfailed() error {
	values, err := p.command("failure", ep)
	if err != nil {
		return err
	}
	if r, err := parseResult(values); err != nil || r.status.IsError() {
		return fmt.Errorf("%s: the error handler was told %v, %v", p.name, r.status, err)
	}
	return nil
}

// closingSettings are the error modes, and eager messages.
var closingSettings = []setting{
	{name: "none"},
	{name: "peer", mode: "peer"},
	{name: "peer, eager", mode: "peer", both: []string{"UCX_RNDV_THRESH=inf"}},
}

// TestRDMAClosing connects by worker addresses: everything sent before a close arrives, whichever
// side receives it and however late, and the closes of both sides succeed.
func TestRDMAClosing(t *testing.T) {
	overRDMA(t, true, func(t *testing.T, where *place, ours, theirs program) {
		for _, over := range rdmaRoutes(t, reliable, datagram) {
			for i, s := range closingSettings {
				for _, back := range []bool{false, true} {
					if !rdmaLong && back != (i == 1) {
						continue
					}
					name := "first closes"
					if back {
						name = "second closes"
					}
					t.Run(over.name+"/"+s.name+"/"+name, func(t *testing.T) {
						p, err := newPair(where, ours, theirs, s, over)
						if err != nil {
							t.Fatal(err)
						}
						defer p.report(t)
						p.meet(t)
						from, to := p.ours, p.theirs
						if back {
							from, to = to, from
						}
						if err := p.closesBefore(from, to); err != nil {
							t.Fatal(err)
						}
						p.closesBehind(t, to)
					})
				}
			}
		}
	})
}

// closesBehind closes the other endpoint, and ends both programs.
func (p *pair) closesBehind(t *testing.T, side *peer) {
	t.Helper()
	n := side.request()
	if err := side.do("close", n, ep, "flush"); err != nil {
		t.Fatal(err)
	}
	switch got, err := side.wait(n, 0); {
	case err != nil:
		t.Fatal(err)
	case got.status.IsError() && side.isC():
		t.Logf("%s, which closes behind the other: %v", side.name, got.status)
	case got.status != ucs.OK:
		t.Errorf("%s: the close behind that of the other side: %v", side.name, got.status)
	}
	if err := errors.Join(p.ours.exit(), p.theirs.exit()); err != nil {
		t.Error(err)
	}
}

// TestRDMADialedClosing is the same for connections by socket address.
func TestRDMADialedClosing(t *testing.T) {
	eachRDMADialing(t, func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		if over.tls != reliable && over.tls != datagram {
			return
		}
		for _, weClose := range []bool{true, false} {
			name := "we close"
			if !weClose {
				name = "it closes"
			}
			t.Run(name, func(t *testing.T) {
				d, err := startDialing(where, ours, theirs, weServe, setting{mode: "peer"}, over)
				if err != nil {
					t.Fatal(err)
				}
				defer d.report(t)
				if err := d.connect(); err != nil {
					t.Fatal(err)
				}
				d.meet(t)
				from, to := d.ours, d.theirs
				if !weClose {
					from, to = to, from
				}
				if err := d.closesBefore(from, to); err != nil {
					if from.isC() {
						t.Logf("C UCX loses by socket address what is under way: %.200v", err)
						return
					}
					t.Fatal(err)
				}
				if err := d.server.do("unlisten"); err != nil {
					t.Fatal(err)
				}
				d.closesBehind(t, to)
			})
		}
	})
}

// TestRDMAShutdown: a shutdown whose context ends reports how many operations the peer has not
// answered. Those end with ErrCanceled, and messages that have arrived can still be received.
func TestRDMAShutdown(t *testing.T) {
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		if !ours.ours {
			return
		}
		for _, over := range rdmaRoutes(t, reliable, datagram) {
			t.Run(over.name, func(t *testing.T) {
				p, err := newPair(where, ours, theirs, setting{mode: "peer"}, over)
				if err != nil {
					t.Fatal(err)
				}
				defer p.report(t)
				p.meet(t)
				requests, sent := waiting(t, p)
				done := p.msgs.next(8)
				n, err := p.ours.send(ep, done, "contig", "async")
				if err != nil {
					t.Fatal(err)
				}
				if err := p.ours.finish(n); err != nil {
					t.Fatal(err)
				}
				words, err := p.ours.command("shutdownep", ep, 1)
				if err != nil {
					t.Fatal(err)
				}
				if text := strings.Join(words, " "); !strings.Contains(text, "2 operations that the peer has not answered are canceled") {
					t.Errorf("the shutdown says: %s", text)
				}
				for _, n := range requests {
					if got, err := p.ours.wait(n, 0); err != nil || got.status != ucs.ErrCanceled {
						t.Errorf("what was left has ended with %v, %v", got.status, err)
					}
				}
				for _, m := range []message{sent[0], done} {
					r, err := p.theirs.recv(m.tag, fullMask, m.size, "contig")
					if err == nil {
						err = p.theirs.received(r, m)
					}
					if err != nil {
						t.Error(err)
					}
				}
				p.closesBehind(t, p.theirs)
			})
		}
	})
}
