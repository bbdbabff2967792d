//go:build linux

package rc_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// key is the remote key of a scripted peer's memory.
func (p *scriptedPeer) key() *uct.Rkey { return &uct.Rkey{Value: uint64(p.mr.RKey()) | 0xffffffff<<32} }

// launch starts operations of all kinds on an endpoint, which are under way for as long as the
// network does not work.
func launch(t *testing.T, p *scriptedPeer) (list []*ucttest.Completion) {
	t.Helper()
	rma, atomic := p.ep.(uct.RMA), p.ep.(uct.Atomic)
	iov := []uct.IOV{p.host.IOV(t, make([]byte, 100))}
	into := []uct.IOV{p.host.IOV(t, make([]byte, 100))}
	word := new(uint64)
	u := new(ucttest.Unpacker)
	for _, start := range []func(c *uct.Completion) error{
		func(c *uct.Completion) error { return p.ep.AMZcopy(1, &ucttest.Packer{Data: []byte("h")}, iov, 0, c) },
		func(c *uct.Completion) error { return rma.PutZcopy(iov, p.mr.Addr(), p.key(), c) },
		func(c *uct.Completion) error { return rma.GetBcopy(u, 8, p.mr.Addr(), p.key(), c) },
		func(c *uct.Completion) error { return rma.GetZcopy(into, p.mr.Addr(), p.key(), c) },
		func(c *uct.Completion) error {
			return atomic.Atomic64Fetch(uct.AtomicAdd, 1, word, p.mr.Addr()&^7, p.key(), c)
		},
		func(c *uct.Completion) error { return atomic.AtomicCSwap64(1, 2, p.mr.Addr()&^7, p.key(), word, c) },
		func(c *uct.Completion) error { return p.ep.Flush(uct.FlushLocal, c) },
		func(c *uct.Completion) error { return p.ep.(uct.Checker).Check(c) },
	} {
		c := ucttest.NewCompletion(1)
		if err := start(&c.Completion); err != ucs.InProgress {
			t.Fatalf("operation %d: %v", len(list), err)
		}
		list = append(list, c)
	}
	for range 3 {
		check(t, p.ep.AMShort(1, 2, nil, 0, nil))
		if _, err := p.ep.AMBcopy(1, &ucttest.Packer{Data: []byte("copied")}, 0, nil); err != nil {
			t.Fatal(err)
		}
		check(t, rma.PutShort([]byte("short"), p.mr.Addr(), p.key()))
		if _, err := rma.PutBcopy(&ucttest.Packer{Data: []byte("copied")}, 8, p.mr.Addr(), p.key()); err != nil {
			t.Fatal(err)
		}
		check(t, atomic.Atomic64Post(uct.AtomicAdd, 1, p.mr.Addr()&^7, p.key()))
	}
	return list
}

// over checks that the operations have ended with a status, each once, that the endpoint has
// failed with it once, and that nothing of it is held any more; and then that others go on.
func over(t *testing.T, p, other *scriptedPeer, list []*ucttest.Completion, want ucs.Status) {
	t.Helper()
	h := p.host
	ucttest.Until(t, "the failure", func() bool { return h.Failed(p.ep) != nil }, h)
	ucttest.Settle(h)
	for k, c := range list {
		if c.Fired != 1 || !errors.Is(c.Err, want) {
			t.Errorf("operation %d: told %d times, %v", k, c.Fired, c.Err)
		}
	}
	if len(h.Failures) != 1 || !errors.Is(h.Failures[0].Err, want) || h.Failures[0].UserData != any(p) {
		t.Errorf("failures: %+v, want one of %v", h.Failures, want)
	}
	refused(t, p.ep)
	bufs, freeBufs, hdrs, freeHdrs := rc.Buffers(h.Iface)
	free, total := rc.Credits(h.Iface)
	if bufs != freeBufs || hdrs != freeHdrs || free != total || rc.Limbo(h.Iface) != 0 {
		t.Errorf("free: %d of %d buffers, %d of %d headers, %d of %d credits; %d in limbo",
			freeBufs, bufs, freeHdrs, hdrs, free, total, rc.Limbo(h.Iface))
	}
	if other == nil {
		return
	}
	check(t, other.ep.AMShort(1, 2, nil, 0, nil))
	ucttest.Settle(h)
	if got := other.heard(); len(got) != 1 {
		t.Errorf("%d messages on another connection", len(got))
	}
}

// refused checks that an endpoint takes nothing.
func refused(t *testing.T, ep uct.Endpoint) {
	t.Helper()
	c := ucttest.NewCompletion(1)
	rma, atomic := ep.(uct.RMA), ep.(uct.Atomic)
	pk := &ucttest.Packer{Data: []byte("x")}
	for k, err := range []error{
		ep.AMShort(1, 2, nil, 0, &c.Completion), ep.AMShortIOV(1, nil, 0, &c.Completion), ep.AMZcopy(1, pk, nil, 0, &c.Completion),
		second(ep.AMBcopy(1, pk, 0, &c.Completion)), rma.PutShort(nil, 8, &uct.Rkey{}), second(rma.PutBcopy(pk, 1, 8, &uct.Rkey{})),
		rma.PutZcopy(nil, 8, &uct.Rkey{}, &c.Completion), rma.GetBcopy(new(ucttest.Unpacker), 8, 8, &uct.Rkey{}, &c.Completion),
		rma.GetZcopy(nil, 8, &uct.Rkey{}, &c.Completion), atomic.Atomic64Post(uct.AtomicAdd, 1, 8, &uct.Rkey{}),
		ep.Flush(uct.FlushLocal, &c.Completion), ep.(uct.Checker).Check(&c.Completion), ep.Fence(),
	} {
		if err == nil || err == ucs.InProgress || err == ucs.ErrNoResource {
			t.Errorf("operation %d on an endpoint that has failed: %v", k, err)
		}
	}
	p := ucttest.NewPending(func() error { return nil })
	if err := ep.PendingAdd(&p.Pending); err != ucs.ErrBusy {
		t.Errorf("adding a request: %v", err)
	}
	if c.Fired != 0 || pk.Calls != 0 {
		t.Errorf("refused, completed %d times and packed %d times", c.Fired, pk.Calls)
	}
}

func second(_ int, err error) error { return err }

// duo opens a host with two scripted peers, on a network that does nothing unless it is told to.
func duo(t *testing.T, pairs ...string) (r *rig, p, other *scriptedPeer) {
	t.Helper()
	r = newRig(t, verbstest.Port{}).slow(1 << 20)
	f := fixture(t, r, pairs...)
	h := f.Open(t)
	return r, newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
}

// TestPeerKilled: the process at the other end is gone, with its queue pair.
func TestPeerKilled(t *testing.T) {
	_, p, other := duo(t)
	list := launch(t, p)
	wait := ucttest.NewPending(func() error { return ucs.ErrNoResource })
	fill(t, p)
	check(t, p.ep.PendingAdd(&wait.Pending))
	check(t, p.ctx.Close())
	over(t, p, other, list, ucs.ErrEndpointTimeout)
	purged := 0
	p.ep.PendingPurge(func(q *uct.Pending) {
		purged++
		if q != &wait.Pending {
			t.Error("purged another request")
		}
	})
	if purged != 1 {
		t.Errorf("purged %d requests", purged)
	}
}

// fill sends until there is no room.
func fill(t *testing.T, p *scriptedPeer) {
	t.Helper()
	for k := 0; ; k++ {
		err := p.ep.AMShort(1, 2, nil, 0, nil)
		if err == ucs.ErrNoResource {
			return
		}
		if err != nil || k > 1<<16 {
			t.Fatalf("message %d: %v", k, err)
		}
	}
}

// TestPeerKilledIdle: a check finds out.
func TestPeerKilledIdle(t *testing.T) {
	_, p, other := duo(t)
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	ucttest.Settle(p.host)
	check(t, p.ctx.Close())
	ucttest.Settle(p.host)
	if err := p.host.Failed(p.ep); err != nil {
		t.Fatalf("found out by nobody: %v", err)
	}
	if err := p.ep.(uct.Checker).Check(nil); err != nil && err != ucs.InProgress {
		t.Fatal(err)
	}
	over(t, p, other, nil, ucs.ErrEndpointTimeout)
}

// TestAccessViolation: the peer does not let us.
func TestAccessViolation(t *testing.T) {
	_, p, other := duo(t)
	bad := &uct.Rkey{Value: uint64(p.mr.RKey()+0x1100) | 0xffffffff<<32}
	check(t, p.ep.(uct.RMA).PutShort([]byte("x"), p.mr.Addr(), bad))
	over(t, p, other, launch(t, p), ucs.ErrConnectionReset)
}

// TestPeerViolates: we do not let the peer, and so the connection ends at both ends.
func TestPeerViolates(t *testing.T) {
	_, p, other := duo(t)
	list := launch(t, p)
	_, err := p.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: 4096, RKey: 1,
		SGList: []verbs.SGE{p.mr.SGE(0, 8)}}})
	check(t, err)
	ucttest.Until(t, "the failure", func() bool { return p.host.Failed(p.ep) != nil }, p.host)
	for k, c := range list { // those that came before it went well
		if c.Fired != 1 || c.Err != nil && !errors.Is(c.Err, ucs.ErrConnectionReset) {
			t.Errorf("operation %d: told %d times, %v", k, c.Fired, c.Err)
		}
	}
	over(t, p, other, nil, ucs.ErrConnectionReset)
}

// TestNoReceives: a peer without buffers is waited for, but not for ever where that is not
// wanted.
func TestNoReceives(t *testing.T) {
	r, p, other := duo(t, "RC_VERBS_RNR_RETRY_COUNT", "3")
	r.net.SetHook(verbstest.When(func(m *verbstest.Message) bool { return m.ToQP == uint32(p.qp.QPN()) }, verbstest.Fate{NotReady: true}))
	over(t, p, other, launch(t, p), ucs.ErrEndpointTimeout)
	r, p, _ = duo(t)
	r.net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{NotReady: true}))
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	ucttest.Settle(p.host)
	r.net.SetHook(nil)
	ucttest.Settle(p.host)
	if got := p.heard(); len(got) != 1 || p.host.Failed(p.ep) != nil {
		t.Errorf("%d messages, failure %v", len(got), p.host.Failed(p.ep))
	}
}

// TestNetworkGone: nothing arrives any more. Who receives learns why; not of one that is closed.
func TestNetworkGone(t *testing.T) {
	r, p, other := duo(t)
	gone, closed := watch(p.ep), watch(other.ep)
	r.net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	over(t, p, nil, launch(t, p), ucs.ErrEndpointTimeout)
	other.ep.Close()
	ucttest.Settle(p.host)
	if gone.n != 1 || !errors.Is(gone.why, ucs.ErrEndpointTimeout) || closed.n != 1 || closed.why != nil {
		t.Errorf("told %d times, %v; of the closed one %d times, %v", gone.n, gone.why, closed.n, closed.why)
	}
}

// TestLink: a link that comes back in time is not noticed; one that does not ends even those
// connections that have nothing to say.
func TestLink(t *testing.T) {
	r, p, other := duo(t, "RC_VERBS_TIMEOUT", "1us")
	dev, h := r.devs[0], p.host
	down := func() {
		dev.SetPort(false)
		h.Worker.Progress()
		h.Worker.PollEvents()
	}
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	check(t, other.ep.AMShort(1, 2, nil, 0, nil))
	r.net.Step(2) // of which this one is over
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	down()
	dev.SetPort(true)
	ucttest.Settle(h)
	if got, too := p.heard(), other.heard(); len(got) != 2 || len(too) != 1 || len(h.Failures) != 0 {
		t.Fatalf("%d and %d messages, failures %v", len(got), len(too), h.Failures)
	}
	down()
	ucttest.Until(t, "the failure of all", func() bool { return len(h.Failures) == 2 }, h)
	for _, x := range []*scriptedPeer{p, other} {
		if err := h.Failed(x.ep); !errors.Is(err, ucs.ErrEndpointTimeout) {
			t.Error(err)
		}
		refused(t, x.ep)
	}
}

// TestLinkPatience: a link that is down for a moment ends nobody who has nothing under way, and
// an interface can be closed meanwhile.
func TestLinkPatience(t *testing.T) {
	r, p, _ := duo(t)
	h := p.host
	for range 3 {
		r.devs[0].SetPort(false)
		ucttest.Settle(h)
		h.Worker.PollEvents()
		ucttest.Settle(h)
	}
	if len(h.Failures) != 0 {
		t.Errorf("failures %v", h.Failures)
	}
	r.devs[0].SetPort(true)
	ucttest.Settle(h)
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	ucttest.Settle(h)
	if n := len(p.heard()); n != 1 {
		t.Errorf("%d messages", n)
	}
	r.devs[0].SetPort(false)
	ucttest.Settle(h)
}

// TestDeviceRemoved: all endpoints fail, and everything can be closed.
func TestDeviceRemoved(t *testing.T) {
	for _, idle := range []bool{true, false} {
		r, p, other := duo(t)
		var list []*ucttest.Completion
		if !idle {
			list = launch(t, p)
		}
		r.devs[0].Remove()
		h := p.host
		ucttest.Until(t, "the failure of all", func() bool { return len(h.Failures) == 2 }, h)
		for k, c := range list {
			if c.Fired != 1 || c.Err == nil {
				t.Errorf("operation %d: told %d times, %v", k, c.Fired, c.Err)
			}
		}
		refused(t, p.ep)
		refused(t, other.ep)
		if _, err := h.Iface.NewEndpoint(uct.EndpointParams{}); err == nil {
			t.Error("an endpoint on a device that is gone")
		}
		if err := h.Iface.Reachable(uct.ReachableParams{DeviceAddr: h.Iface.DeviceAddress()}); !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("who was reachable is: %v", err)
		}
		if err := h.Iface.(uct.Failer).Failed(); !errors.Is(err, ucs.ErrIO) {
			t.Errorf("the interface has failed with %v", err)
		}
	}
}

// TestDeviceRemovedUnnoticed: who sends before the news has come is refused, or not, but is
// told of the end.
func TestDeviceRemovedUnnoticed(t *testing.T) {
	r, p, _ := duo(t)
	r.devs[0].Remove()
	var accepted []*ucttest.Completion
	iov := []uct.IOV{p.host.IOV(t, nil)}
	for range 3 {
		c := ucttest.NewCompletion(1)
		if err := p.ep.AMZcopy(1, nil, iov, 0, &c.Completion); err == ucs.InProgress {
			accepted = append(accepted, c)
		}
	}
	ucttest.Until(t, "the failure", func() bool { return p.host.Failed(p.ep) != nil }, p.host)
	for k, c := range accepted {
		if c.Fired != 1 || c.Err == nil {
			t.Errorf("operation %d: told %d times, %v", k, c.Fired, c.Err)
		}
	}
}

// TestLastWords: what a peer has sent before it went is received before its end is told.
func TestLastWords(t *testing.T) {
	r, p, _ := duo(t, "RC_VERBS_RX_MAX_POLL", "1")
	h := p.host
	got, early := 0, -1
	h.Handle(t, 1, func(*uct.Source, []byte, *uct.AMDesc) error {
		got++
		if h.Failed(p.ep) != nil && early < 0 {
			early = got
		}
		return nil
	})
	const n = 20
	var wrs []verbs.SendWR
	p.mem[0] = 1
	for range 10 {
		wrs = append(wrs, verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{p.mr.SGE(0, 1)}})
	}
	for range n / 10 {
		_, err := p.qp.PostSend(wrs)
		check(t, err)
		r.net.Progress()
	}
	check(t, p.ctx.Close())
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	ucttest.Until(t, "the failure", func() bool { return h.Failed(p.ep) != nil }, h)
	if got != n || early >= 0 {
		t.Errorf("%d messages of %d; message %d came behind the end", got, n, early)
	}
}

// TestClosedWithMail: what has come on an endpoint by the time that it is closed is delivered,
// since its sender knows it to have arrived; then the source is gone. Closing the interface
// delivers nothing.
func TestClosedWithMail(t *testing.T) {
	const before, mail = 2, 20
	for _, handler := range []bool{false, true} {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("by handler %v, interface %v", handler, all), func(t *testing.T) {
				r := newRig(t, verbstest.Port{})
				f := fixture(t, r, "RC_VERBS_RX_MAX_POLL", "4")
				h := f.Open(t)
				p, other := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
				gone := watch(p.ep)
				end := func() {
					p.ep.Close()
					if all {
						other.ep.Close()
						check(t, h.Iface.Close())
					}
				}
				n := 0
				h.Handle(t, 1, func(src *uct.Source, data []byte, _ *uct.AMDesc) error {
					if src.Owner != p.ep.(uct.SourceOwner) {
						return nil
					}
					if gone.n > 0 || int(data[0]) != n {
						t.Errorf("message %d came as number %d, told of the end %d times", data[0], n, gone.n)
					}
					if n++; n == before && handler {
						end()
					}
					return nil
				})
				p.host, other.host = nil, nil // so that nothing is received meanwhile
				for k := range before {
					p.tell(1, byte(k))
				}
				if !handler {
					ucttest.Until(t, "the first messages", func() bool { return n == before }, h)
				}
				for k := range mail {
					p.tell(0x41, byte(before+k)) // which asks for a grant besides
				}
				other.tell(1, 0)
				if !handler {
					end()
				}
				want := before + mail
				if all {
					want = before
				}
				for range 3 * want {
					h.Worker.Progress()
				}
				if n != want || gone.n != 1 || len(h.Failures) != 0 {
					t.Errorf("%d messages of %d, told of the end %d times, failures %v", n, want, gone.n, h.Failures)
				}
			})
		}
	}
}

type goneCounter struct {
	src *uct.Source
	n   int
	why error
}

func (g *goneCounter) SourceGone() { g.n, g.why = g.n+1, g.src.Err() }

// watch counts how often the end of an endpoint's source is told.
func watch(ep uct.Endpoint) *goneCounter {
	g := &goneCounter{src: ep.(uct.SourceHolder).Source()}
	g.src.User = g
	return g
}

// TestClosedByHandler: a handler may close its endpoint and the interface; the data that it was
// given is there until it returns.
func TestClosedByHandler(t *testing.T) {
	for at := 1; at <= 3; at++ {
		r := newRig(t, verbstest.Port{})
		f := fixture(t, r)
		h := f.Open(t)
		p := newScriptedPeer(t, r, h)
		n := 0
		h.Handle(t, 1, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
			if n++; n == at {
				p.ep.Close()
				check(t, h.Iface.Close())
				if len(data) != 2 || data[1] != 7 {
					t.Errorf("%x", data)
				}
			}
			return nil
		})
		p.host = nil
		for range 3 {
			copy(p.mem[scriptedPeerRecvs*scriptedPeerSize:], []byte{1, 2, 7})
			_, err := p.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRSend, SGList: []verbs.SGE{p.mr.SGE(scriptedPeerRecvs*scriptedPeerSize, 3)}}})
			check(t, err)
		}
		for range 20 {
			h.Worker.Progress()
		}
		if n != at {
			t.Errorf("%d messages, closed by number %d", n, at)
		}
	}
}
