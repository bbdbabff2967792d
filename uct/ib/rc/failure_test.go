//go:build linux

package rc_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// key returns the remote key of a scripted peer's memory.
func (p *scriptedPeer) key() *uct.Rkey { return &uct.Rkey{Value: uint64(p.MR.RKey()) | 0xffffffff<<32} }

// launch starts operations of all kinds on an endpoint. They are in flight until the network makes
// progress.
func launch(t *testing.T, p *scriptedPeer) (list []*ucttest.Completion) {
	t.Helper()
	rma, atomic := p.ep.(uct.RMA), p.ep.(uct.Atomic)
	iov := []uct.IOV{p.Host.IOV(t, make([]byte, 100))}
	into := []uct.IOV{p.Host.IOV(t, make([]byte, 100))}
	word := new(uint64)
	u := new(ucttest.Unpacker)
	for _, start := range []func(c *uct.Completion) error{
		func(c *uct.Completion) error { return p.ep.AMZcopy(1, &ucttest.Packer{Data: []byte("h")}, iov, 0, c) },
		func(c *uct.Completion) error { return rma.PutZcopy(iov, p.MR.Addr(), p.key(), c) },
		func(c *uct.Completion) error { return rma.GetBcopy(u, 8, p.MR.Addr(), p.key(), c) },
		func(c *uct.Completion) error { return rma.GetZcopy(into, p.MR.Addr(), p.key(), c) },
		func(c *uct.Completion) error {
			return atomic.Atomic64Fetch(uct.AtomicAdd, 1, word, p.MR.Addr()&^7, p.key(), c)
		},
		func(c *uct.Completion) error { return atomic.AtomicCSwap64(1, 2, p.MR.Addr()&^7, p.key(), word, c) },
		func(c *uct.Completion) error { return p.ep.Flush(uct.FlushLocal, c) },
		func(c *uct.Completion) error { return p.ep.Check(c) },
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
		check(t, rma.PutShort([]byte("short"), p.MR.Addr(), p.key()))
		if _, err := rma.PutBcopy(&ucttest.Packer{Data: []byte("copied")}, 8, p.MR.Addr(), p.key()); err != nil {
			t.Fatal(err)
		}
		check(t, atomic.Atomic64Post(uct.AtomicAdd, 1, p.MR.Addr()&^7, p.key()))
	}
	return list
}

// over checks that each operation has completed once with the status want, that the endpoint has
// failed with it once and holds nothing any more, and that the endpoint of other still works.
func over(t *testing.T, p, other *scriptedPeer, list []*ucttest.Completion, want ucs.Status) {
	t.Helper()
	h := p.Host
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
	if got := other.Received(); len(got) != 1 {
		t.Errorf("%d messages on another connection", len(got))
	}
}

// refused checks that an endpoint accepts no operations.
func refused(t *testing.T, ep uct.Endpoint) {
	t.Helper()
	rma, atomic := ep.(uct.RMA), ep.(uct.Atomic)
	rigtest.Refused(t, ep, func(pk *ucttest.Packer, c *uct.Completion) []error {
		return []error{
			rma.PutShort(nil, 8, &uct.Rkey{}), second(rma.PutBcopy(pk, 1, 8, &uct.Rkey{})), rma.PutZcopy(nil, 8, &uct.Rkey{}, c),
			rma.GetBcopy(new(ucttest.Unpacker), 8, 8, &uct.Rkey{}, c), rma.GetZcopy(nil, 8, &uct.Rkey{}, c),
			atomic.Atomic64Post(uct.AtomicAdd, 1, 8, &uct.Rkey{}),
		}
	})
}

func second(_ int, err error) error { return err }

// duo opens a host with two scripted peers, on a network that makes progress only on request.
func duo(t *testing.T, pairs ...string) (r *rig, p, other *scriptedPeer) {
	t.Helper()
	r = newRig(t, verbstest.Port{}).Slow(1 << 20)
	f := fixture(t, r, pairs...)
	h := f.Open(t)
	return r, newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
}

// TestPeerKilled checks that operations fail if the peer's process dies, and its queue pair with
// it.
func TestPeerKilled(t *testing.T) {
	_, p, other := duo(t)
	list := launch(t, p)
	wait := ucttest.NewPending(func() error { return ucs.ErrNoResource })
	fill(t, p)
	check(t, p.ep.PendingAdd(&wait.Pending))
	check(t, p.Ctx.Close())
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

// fill sends until the endpoint has no room.
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

// TestPeerKilledIdle checks that Check detects that the peer of an idle endpoint is dead.
func TestPeerKilledIdle(t *testing.T) {
	_, p, other := duo(t)
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	ucttest.Settle(p.Host)
	check(t, p.Ctx.Close())
	ucttest.Settle(p.Host)
	if err := p.Host.Failed(p.ep); err != nil {
		t.Fatalf("found out by nobody: %v", err)
	}
	if err := p.ep.Check(nil); err != nil && err != ucs.InProgress {
		t.Fatal(err)
	}
	over(t, p, other, nil, ucs.ErrEndpointTimeout)
}

// TestAccessViolation checks that an access refused by the peer fails the endpoint.
func TestAccessViolation(t *testing.T) {
	_, p, other := duo(t)
	bad := &uct.Rkey{Value: uint64(p.MR.RKey()+0x1100) | 0xffffffff<<32}
	check(t, p.ep.(uct.RMA).PutShort([]byte("x"), p.MR.Addr(), bad))
	over(t, p, other, launch(t, p), ucs.ErrConnectionReset)
}

// TestPeerViolates checks that a forbidden access by the peer ends the connection on both sides.
func TestPeerViolates(t *testing.T) {
	_, p, other := duo(t)
	list := launch(t, p)
	_, err := p.QP.PostSend([]verbs.SendWR{{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: 4096, RKey: 1,
		SGList: []verbs.SGE{p.MR.SGE(0, 8)}}})
	check(t, err)
	ucttest.Until(t, "the failure", func() bool { return p.Host.Failed(p.ep) != nil }, p.Host)
	for k, c := range list { // operations before the access may have succeeded
		if c.Fired != 1 || c.Err != nil && !errors.Is(c.Err, ucs.ErrConnectionReset) {
			t.Errorf("operation %d: told %d times, %v", k, c.Fired, c.Err)
		}
	}
	over(t, p, other, nil, ucs.ErrConnectionReset)
}

// TestNoReceives checks that an endpoint waits forever for a peer without receive buffers, unless
// the settings limit the retries.
func TestNoReceives(t *testing.T) {
	r, p, other := duo(t, "RC_VERBS_RNR_RETRY_COUNT", "3")
	r.SetHook(verbstest.When(func(m *verbstest.Message) bool { return m.ToQP == uint32(p.QP.QPN()) }, verbstest.Fate{NotReady: true}))
	over(t, p, other, launch(t, p), ucs.ErrEndpointTimeout)
	r, p, _ = duo(t)
	r.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{NotReady: true}))
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	ucttest.Settle(p.Host)
	r.SetHook(nil)
	ucttest.Settle(p.Host)
	if got := p.Received(); len(got) != 1 || p.Host.Failed(p.ep) != nil {
		t.Errorf("%d messages, failure %v", len(got), p.Host.Failed(p.ep))
	}
}

// TestNetworkGone checks that a source reports the error when nothing arrives any more, and no
// error when its endpoint was closed.
func TestNetworkGone(t *testing.T) {
	r, p, other := duo(t)
	gone, closed := watch(p.ep), watch(other.ep)
	r.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	over(t, p, nil, launch(t, p), ucs.ErrEndpointTimeout)
	other.ep.Close()
	ucttest.Settle(p.Host)
	if gone.N != 1 || !errors.Is(gone.Why, ucs.ErrEndpointTimeout) || closed.N != 1 || closed.Why != nil {
		t.Errorf("told %d times, %v; of the closed one %d times, %v", gone.N, gone.Why, closed.N, closed.Why)
	}
}

// TestLink checks that a link which returns in time has no effect, and that a link which stays down
// fails all connections, idle ones too.
func TestLink(t *testing.T) {
	r, p, other := duo(t, "RC_VERBS_TIMEOUT", "1us")
	dev, h := r.Devices()[0], p.Host
	down := func() {
		dev.SetPort(false)
		h.Worker.Progress()
		h.Worker.PollEvents()
	}
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	check(t, other.ep.AMShort(1, 2, nil, 0, nil))
	r.Step(2) // the message of other has arrived
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	down()
	dev.SetPort(true)
	ucttest.Settle(h)
	if got, too := p.Received(), other.Received(); len(got) != 2 || len(too) != 1 || len(h.Failures) != 0 {
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

// TestLinkPatience checks that a short loss of the link fails no idle connection, and that an
// interface can be closed while the link is down.
func TestLinkPatience(t *testing.T) {
	r, p, _ := duo(t)
	h := p.Host
	for range 3 {
		r.Devices()[0].SetPort(false)
		ucttest.Settle(h)
		h.Worker.PollEvents()
		ucttest.Settle(h)
	}
	if len(h.Failures) != 0 {
		t.Errorf("failures %v", h.Failures)
	}
	r.Devices()[0].SetPort(true)
	ucttest.Settle(h)
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	ucttest.Settle(h)
	if n := len(p.Received()); n != 1 {
		t.Errorf("%d messages", n)
	}
	r.Devices()[0].SetPort(false)
	ucttest.Settle(h)
}

// TestDeviceRemoved checks that all endpoints fail when their device is removed, and that
// everything can be closed.
func TestDeviceRemoved(t *testing.T) {
	for _, idle := range []bool{true, false} {
		r, p, other := duo(t)
		var list []*ucttest.Completion
		if !idle {
			list = launch(t, p)
		}
		r.Devices()[0].Remove()
		h := p.Host
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
		if err := h.Iface.(uct.NetworkIface).Failed(); !errors.Is(err, ucs.ErrIO) {
			t.Errorf("the interface has failed with %v", err)
		}
	}
}

// TestDeviceRemovedUnnoticed checks that a send before the removal of the device is noticed either
// is refused or completes with an error.
func TestDeviceRemovedUnnoticed(t *testing.T) {
	r, p, _ := duo(t)
	r.Devices()[0].Remove()
	var accepted []*ucttest.Completion
	iov := []uct.IOV{p.Host.IOV(t, nil)}
	for range 3 {
		c := ucttest.NewCompletion(1)
		if err := p.ep.AMZcopy(1, nil, iov, 0, &c.Completion); err == ucs.InProgress {
			accepted = append(accepted, c)
		}
	}
	ucttest.Until(t, "the failure", func() bool { return p.Host.Failed(p.ep) != nil }, p.Host)
	for k, c := range accepted {
		if c.Fired != 1 || c.Err == nil {
			t.Errorf("operation %d: told %d times, %v", k, c.Fired, c.Err)
		}
	}
}

// TestLastWords checks that the last messages of a peer are delivered before its failure is
// reported.
func TestLastWords(t *testing.T) {
	r, p, _ := duo(t, "RC_VERBS_RX_MAX_POLL", "1")
	h := p.Host
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
	p.Mem[0] = 1
	for range 10 {
		wrs = append(wrs, verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{p.MR.SGE(0, 1)}})
	}
	for range n / 10 {
		_, err := p.QP.PostSend(wrs)
		check(t, err)
		r.Progress()
	}
	check(t, p.Ctx.Close())
	check(t, p.ep.AMShort(1, 2, nil, 0, nil))
	ucttest.Until(t, "the failure", func() bool { return h.Failed(p.ep) != nil }, h)
	if got != n || early >= 0 {
		t.Errorf("%d messages of %d; message %d came behind the end", got, n, early)
	}
}

// TestClosedWithMail checks that the messages which an endpoint has received when it is closed are
// delivered, because they were acknowledged to the sender, and that its source then is gone. After
// the interface is closed nothing is delivered.
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
					if gone.N > 0 || int(data[0]) != n {
						t.Errorf("message %d came as number %d, told of the end %d times", data[0], n, gone.N)
					}
					if n++; n == before && handler {
						end()
					}
					return nil
				})
				p.Host, other.Host = nil, nil // without a host, sends do not make progress on h
				for k := range before {
					p.tell(1, byte(k))
				}
				if !handler {
					ucttest.Until(t, "the first messages", func() bool { return n == before }, h)
				}
				for k := range mail {
					p.tell(0x41, byte(before+k)) // also asks for a grant
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
				if n != want || gone.N != 1 || len(h.Failures) != 0 {
					t.Errorf("%d messages of %d, told of the end %d times, failures %v", n, want, gone.N, h.Failures)
				}
			})
		}
	}
}

// watch counts the notifications that an endpoint's source is gone.
func watch(ep uct.Endpoint) *rigtest.Gone { return rigtest.Watch(ep.(uct.NetworkEndpoint).Source()) }

// TestClosedByHandler checks that a handler may close its endpoint and interface, and that its data
// stays valid until it returns.
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
		p.Host = nil
		for range 3 {
			_, err := p.QP.PostSend([]verbs.SendWR{{Opcode: verbs.WRSend, SGList: []verbs.SGE{p.Outgoing([]byte{1, 2, 7})}}})
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
