//go:build linux

package ud_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// launch starts one operation of each kind that has a completion.
func launch(t *testing.T, h *ucttest.Host, ep uct.Endpoint) (list []*ucttest.Completion) {
	t.Helper()
	iov := []uct.IOV{h.IOV(t, make([]byte, 100))}
	for _, start := range []func(c *uct.Completion) error{
		func(c *uct.Completion) error { return ep.AMZcopy(1, &ucttest.Packer{Data: []byte("h")}, iov, 0, c) },
		func(c *uct.Completion) error { return ep.Flush(uct.FlushLocal, c) },
	} {
		c := ucttest.NewCompletion(1)
		if err := start(&c.Completion); err != ucs.InProgress {
			t.Fatalf("operation %d: %v", len(list), err)
		}
		list = append(list, c)
	}
	return list
}

// ended checks that each operation has completed once with the error want, and that no slots are
// held.
func ended(t *testing.T, h *ucttest.Host, list []*ucttest.Completion, want error) {
	t.Helper()
	for k, c := range list {
		if c.Fired != 1 || !errors.Is(c.Err, want) {
			t.Errorf("operation %d: told %d times, %v, want %v", k, c.Fired, c.Err, want)
		}
	}
	if slots, limbo := ud.Held(h.Iface); slots != 0 || limbo != 0 {
		t.Errorf("%d slots in use, %d in limbo", slots, limbo)
	}
}

// connected connects two hosts, and sends some messages over the connection.
func connected(t *testing.T, a, b *ucttest.Host) uct.Endpoint {
	t.Helper()
	got := b.Collect(t, 1)
	ep := a.Connect(t, b)
	for range 20 {
		ucttest.Accept(t, func() error { return ep.AMShort(1, 1, nil, 0, nil) }, a, b)
	}
	got.Wait(t, 20, a, b)
	c := ucttest.NewCompletion(1)
	c.Finish(t, ucttest.Accept(t, func() error { return ep.Flush(uct.FlushLocal, &c.Completion) }, a, b), a, b)
	return ep
}

// TestCheckWhilePolling checks that a worker which polls and never sleeps detects by a Check that
// the peer of an idle endpoint is dead. The check alone sets the timer.
func TestCheckWhilePolling(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	ucttest.Until(t, "the end of the timer", func() bool { return !ud.Alarmed(a.Iface) }, a, b)
	net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	check(t, ep.Check(nil))
	for range 2 {
		a.Worker.Progress()
	}
	if !ud.Alarmed(a.Iface) {
		t.Fatal("nobody looks whether the check is answered")
	}
	for a.Failed(ep) == nil {
		a.Worker.Progress()
	}
	ended(t, a, nil, nil)
	if err := a.Failed(ep); !errors.Is(err, ucs.ErrEndpointTimeout) {
		t.Error(err)
	}
}

// TestPeerIsDead checks that operations to a silent peer end with an error after the timeout, and
// that the endpoint fails once.
func TestPeerIsDead(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	list := launch(t, a, ep)
	ucttest.Until(t, "the failure", func() bool { return a.Failed(ep) != nil }, a)
	ended(t, a, list, ucs.ErrEndpointTimeout)
	if len(a.Failures) != 1 || !errors.Is(a.Failures[0].Err, ucs.ErrEndpointTimeout) {
		t.Errorf("%+v", a.Failures)
	}
	rigtest.Refused(t, ep, nil)
}

// TestPeerIsClosed checks that an interface notifies its peers when it is closed, and when it drops
// a connection, so that they need not wait for a timeout.
func TestPeerIsClosed(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := ucttest.Fixture{Component: fixture(t, net).Component, Transport: "ud_verbs", Silent: true} // default timeout
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	list := launch(t, a, ep)
	b.Close(t)
	ucttest.Until(t, "the failure", func() bool { return a.Failed(ep) != nil }, a)
	if err := a.Failed(ep); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("%v", err)
	}
	ended(t, a, list, ucs.ErrConnectionReset)
	b = f.Open(t)
	b.Handle(t, 3, func(*uct.Source, []byte, *uct.AMDesc) error { return ucs.ErrInvalidParam })
	ep = connected(t, a, b)
	check(t, ep.AMShort(3, 1, nil, 0, nil))
	ucttest.Until(t, "the failure", func() bool { return a.Failed(ep) != nil }, a, b)
	if err := a.Failed(ep); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("%v", err)
	}
}

// TestDeviceIsRemoved checks that endpoints fail once each when their device is removed.
func TestDeviceIsRemoved(t *testing.T) {
	net := network(t, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net)
	a := f.Open(t)
	p := newScriptedPeer(t, net.Devices()[1], a)
	ep, _ := p.answered()
	id := p.connect(5, 1)
	list := launch(t, a, ep)
	_ = id
	net.Devices()[0].Remove()
	ucttest.Until(t, "the failure", func() bool { return a.Failed(ep) != nil }, a)
	ucttest.Settle(a)
	ended(t, a, list, ucs.ErrIO)
	if len(a.Failures) != 1 {
		t.Errorf("%+v", a.Failures)
	}
	rigtest.Refused(t, ep, nil)
	if _, err := a.Iface.NewEndpoint(uct.EndpointParams{}); err == nil {
		t.Error("an endpoint of a device that is gone")
	}
	ep.Close()
	if n := ud.Connections(a.Iface); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// TestLinkGoesDown checks that messages sent while the link is down arrive when it is up again.
func TestLinkGoesDown(t *testing.T) {
	net := network(t, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	got := b.Collect(t, 2)
	net.Devices()[0].SetLink(1, false)
	for n := range uint64(3) {
		ucttest.Accept(t, func() error { return ep.AMShort(2, n, nil, 0, nil) }, a, b)
	}
	ucttest.Settle(a, b)
	net.Devices()[0].SetLink(1, true)
	got.Wait(t, 3, a, b)
	if len(a.Failures) != 0 {
		t.Errorf("%+v", a.Failures)
	}
}

// TestQueuePairBreaks breaks the queue pairs of both sides repeatedly, with messages of all kinds
// in flight: all must arrive once and in order, and no slots may be held at the end.
func TestQueuePairBreaks(t *testing.T) {
	for _, pace := range []int{0, 1, 5} {
		t.Run(fmt.Sprint("pace ", pace), func(t *testing.T) {
			net := network(t, verbstest.Config{})
			f := fixture(t, net)
			if pace > 0 {
				net.Slow(pace)
			}
			a, b := f.Pair(t)
			ep := connected(t, a, b)
			got := b.Collect(t, 3)
			iov := []uct.IOV{a.IOV(t, []byte("12345678"))}
			var list []*ucttest.Completion
			const count = 300
			for n := range uint64(count) {
				if n%50 == 10 {
					check(t, ud.Break(a.Iface))
				}
				if n%50 == 35 {
					check(t, ud.Break(b.Iface))
				}
				ucttest.Accept(t, func() error {
					switch n % 3 {
					case 0:
						return ep.AMShort(3, n, nil, 0, nil)
					case 1:
						var h [8]byte
						h[0], h[1] = byte(n), byte(n>>8)
						_, err := ep.AMBcopy(3, &ucttest.Packer{Data: h[:]}, 0, nil)
						return err
					}
					h := []byte{byte(n), byte(n >> 8)}
					c := ucttest.NewCompletion(1)
					err := ep.AMZcopy(3, &ucttest.Packer{Data: h}, iov, 0, &c.Completion)
					if err == ucs.InProgress {
						list = append(list, c)
					}
					return err
				}, a, b)
			}
			got.Wait(t, count, a, b)
			for n, m := range got.Messages {
				if int(m.Data[0])|int(m.Data[1])<<8 != n {
					t.Fatalf("message %x in place %d", m.Data, n)
				}
			}
			c := ucttest.NewCompletion(1)
			c.Finish(t, ucttest.Accept(t, func() error { return ep.Flush(uct.FlushLocal, &c.Completion) }, a, b), a, b)
			ended(t, a, list, nil)
			if len(a.Failures) != 0 {
				t.Errorf("%+v", a.Failures)
			}
		})
	}
}

// sleep lets a host sleep until its descriptor is readable, as waiting programs do.
func sleep(t *testing.T, h *ucttest.Host) {
	t.Helper()
	if h.Worker.Arm() != nil {
		return
	}
	fds := []unix.PollFd{{Fd: int32(h.Worker.EventFD()), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 10000); n == 0 && err != unix.EINTR {
		t.Fatalf("asleep for 10 s, %v", err)
	}
}

// TestAsleep checks that a timer wakes a sleeping sender to retransmit lost packets, and that no
// timer is set when nothing is in flight.
func TestAsleep(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net, "UD_TIMEOUT", "30s")
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	got := b.Collect(t, 2)
	lost := 0
	net.SetHook(func(m *verbstest.Message) (f verbstest.Fate) {
		if lost < 3 {
			lost++
			f.Drop = true
		}
		return f
	})
	check(t, ep.AMShort(2, 5, nil, 0, nil))
	for len(got.Messages) == 0 {
		sleep(t, a)
		for a.Worker.Progress() > 0 {
		}
		for b.Worker.Progress() > 0 {
		}
	}
	if c := ud.Counters(a.Iface); lost != 3 || c.Resent == 0 {
		t.Errorf("%d lost, %d sent again", lost, c.Resent)
	}
	net.SetHook(nil)
	c := ucttest.NewCompletion(1)
	c.Finish(t, ucttest.Accept(t, func() error { return ep.Flush(uct.FlushLocal, &c.Completion) }, a, b), a, b)
	for n := 0; ud.Alarmed(a.Iface); n++ { // fires at most once more
		if n > 100 {
			t.Fatal("a timer is set at rest")
		}
		sleep(t, a)
		ucttest.Progress(a)
	}
}

// TestCloseGoesOn checks that messages sent before their endpoint was closed arrive even if they
// are lost at first. This includes zero-copy messages, whose memory belongs to the caller again
// after the completion.
func TestCloseGoesOn(t *testing.T) {
	for _, pace := range []int{0, 1} {
		net := network(t, verbstest.Config{})
		f := fixture(t, net)
		if pace > 0 {
			net.Slow(pace)
		}
		a, b := f.Pair(t)
		ep := connected(t, a, b)
		got := b.Collect(t, 2)
		net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
		mem := a.IOV(t, []byte("not copied"))
		check(t, ep.AMShort(2, 0x3132333435363738, nil, 0, nil))
		if _, err := ep.AMBcopy(2, &ucttest.Packer{Data: []byte("copied")}, 0, nil); err != nil {
			t.Fatal(err)
		}
		c := ucttest.NewCompletion(1)
		if err := ep.AMZcopy(2, nil, []uct.IOV{mem}, 0, &c.Completion); err != ucs.InProgress {
			t.Fatal(err)
		}
		ep.Close()
		ucttest.Until(t, "the completion", func() bool { return c.Fired == 1 }, a)
		if !errors.Is(c.Err, ucs.ErrCanceled) {
			t.Errorf("ended with %v", c.Err)
		}
		copy(mem.Data, "XXXXXXXXXX")
		net.SetHook(nil)
		got.Wait(t, 3, a, b)
		ucttest.SameBytes(t, "the last message", got.Messages[2].Data, []byte("not copied"))
		ucttest.Settle(a, b)
	}
}

// TestManyEndpoints checks that many endpoints can be made, used and closed, and that nothing of
// them is left after the linger time.
func TestManyEndpoints(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net, "UD_LINGER_TIMEOUT", "50ms", "UD_TIMEOUT", "30s") // no timeout while they are made
	a, b := f.Pair(t)
	got := b.Collect(t, 1)
	const many = 500
	var eps []uct.Endpoint
	for range many {
		eps = append(eps, a.Connect(t, b))
	}
	for _, ep := range eps {
		ucttest.Accept(t, func() error { return ep.AMShort(1, 1, nil, 0, nil) }, a, b)
	}
	got.Wait(t, many, a, b)
	for _, ep := range eps {
		ep.Close()
	}
	ucttest.Settle(a, b)
	ep := a.Connect(t, b) // its messages make the interfaces run their timers
	ucttest.Until(t, "the end of closed ones", func() bool {
		ep.AMShort(1, 1, nil, 0, nil)
		return ud.Connections(a.Iface) == 1 && ud.Connections(b.Iface) == 1
	}, a, b)
	ep.Close()
	ucttest.Until(t, "the last acknowledgement", func() bool {
		slots, limbo := ud.Held(a.Iface)
		return slots == 0 && limbo == 0
	}, a, b)
}

// TestNoMemory checks that an interface works with fewer buffers if little memory may be pinned.
func TestNoMemory(t *testing.T) {
	net := network(t, verbstest.Config{})
	k := net.Devices()[0]
	k.SetMemLock(1 << 20)
	f := fixture(t, net)
	a, b := f.Pair(t)
	got := b.Collect(t, 1)
	ep := a.Connect(t, b)
	const count = 2000
	big := make([]byte, 4000)
	for range count {
		ucttest.Accept(t, func() error {
			_, err := ep.AMBcopy(1, &ucttest.Packer{Data: big}, 0, nil)
			return err
		}, a, b)
	}
	got.Wait(t, count, a, b)
	if now, most := k.Pinned(); most > 1<<20 || now == 0 {
		t.Errorf("%d bytes pinned, %d at most", now, most)
	}
}

// TestStrangers checks that the path to an unreachable sender of many CREQs is looked up only a few
// times. Another sender, which is reachable, must get a connection by repeating its CREQ.
func TestStrangers(t *testing.T) {
	net := network(t, verbstest.Config{}, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net)
	h := f.Open(t)
	p, q := newScriptedPeer(t, net.Devices()[1], h), newScriptedPeer(t, net.Devices()[2], h)
	bad := [16]byte(p.dev[1:17])
	var asked atomic.Int32 // lookups by any goroutine
	net.Devices()[0].SetResolve(func(_, to [16]byte) syscall.Errno {
		if to == bad {
			asked.Add(1)
			time.Sleep(2 * time.Millisecond) // as the kernel does
			return syscall.ETIMEDOUT
		}
		return 0
	})
	for n := range uint32(50) {
		p.send(p.creq(n, n))
		h.Worker.Progress()
	}
	if n := asked.Load(); n == 0 || n > 10 {
		t.Errorf("asked %d times", n)
	}
	q.send(q.creq(1, 0))
	ucttest.Until(t, "a connection", func() bool {
		if len(q.Received()) > 0 {
			return true
		}
		q.send(q.creq(1, 0)) // repeat the CREQ, as peers without an answer do
		return false
	}, h)
	if c := ud.Counters(h.Iface); c.Refused == 0 || c.Passive != 1 {
		t.Errorf("%d refused, %d made", c.Refused, c.Passive)
	}
}

// TestNoSleepWithDebts checks that a worker does not sleep while a packet is still to be sent.
func TestNoSleepWithDebts(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	for n := 0; a.Worker.Arm() != nil; n++ {
		if n > 1000 {
			t.Fatal("no rest")
		}
		a.Worker.Progress()
	}
	check(t, ep.Check(nil))
	if err := a.Worker.Arm(); err != ucs.ErrBusy {
		t.Errorf("armed: %v", err)
	}
	a.Worker.Progress()
	if c := ud.Counters(a.Iface); c.Keepalives != 1 {
		t.Errorf("%+v", c)
	}
}

// TestDebtsFirst checks that a host which sends as much as its small queue takes still acknowledges
// the messages of others.
func TestDebtsFirst(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net, "UD_VERBS_TX_QUEUE_LEN", "2", "UD_TIMEOUT", "30s")
	net.Slow(1)
	a, b := f.Pair(t)
	c := f.Open(t)
	ep, other := a.Connect(t, b), c.Connect(t, a)
	b.Collect(t, 1)
	a.Collect(t, 1)
	for range 100 { // to open its window
		ucttest.Accept(t, func() error { return ep.AMShort(1, 0, nil, 0, nil) }, a, b)
		ucttest.Accept(t, func() error { return other.AMShort(1, 0, nil, 0, nil) }, a, c)
	}
	ucttest.Settle(a, b, c)
	sent := 0
	flood := ucttest.NewPending(nil)
	flood.Fn = func() error {
		for {
			if err := ep.AMShort(1, 0, nil, 0, nil); err != nil {
				return err
			}
			sent++
		}
	}
	for ep.AMShort(1, 0, nil, 0, nil) == nil {
	}
	check(t, ep.PendingAdd(&flood.Pending))
	done := ucttest.NewCompletion(1)
	if err := other.AMZcopy(1, nil, []uct.IOV{c.IOV(t, []byte("x"))}, 0, &done.Completion); err != ucs.InProgress {
		t.Fatal(err)
	}
	for n := 0; done.Fired == 0; n++ {
		if n > 1000 {
			t.Fatalf("no answer while %d messages went", sent)
		}
		for range 2 {
			a.Worker.Progress()
			b.Worker.Progress()
		}
		c.Worker.Progress()
	}
	ep.PendingPurge(func(*uct.Pending) {})
	ucttest.Settle(a, b, c)
}

// TestTimerBeforeSleep checks that the timer is set when a worker sleeps right after a send.
func TestTimerBeforeSleep(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	ucttest.Until(t, "rest", func() bool { return !ud.Alarmed(a.Iface) && a.Worker.Arm() == nil }, a, b)
	check(t, ep.AMShort(2, 5, nil, 0, nil))
	if err := a.Worker.Arm(); err != nil || !ud.Alarmed(a.Iface) {
		t.Errorf("armed: %v; the timer is set: %v", err, ud.Alarmed(a.Iface))
	}
	ucttest.Settle(a, b)
}

// TestSleepForRoom checks that a worker whose request waits for room in the queue sleeps until
// there is room.
func TestSleepForRoom(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net, "UD_VERBS_TX_QUEUE_LEN", "8", "UD_TIMEOUT", "30s", "UD_TIMER_TICK", "7s")
	f.Component = net.Still()
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	for range 50 { // to open its window
		c := ucttest.NewCompletion(1)
		c.Finish(t, ep.AMZcopy(2, nil, nil, 0, &c.Completion), a, b)
	}
	ucttest.Settle(a, b)
	net.SetWork(verbstest.InStep)
	for ep.AMShort(2, 0, nil, 0, nil) == nil {
	}
	p := ucttest.NewPending(func() error { return ep.AMShort(2, 0, nil, 0, nil) })
	check(t, ep.PendingAdd(&p.Pending))
	ucttest.Until(t, "rest", func() bool { a.Worker.Progress(); return a.Worker.Arm() == nil })
	fds := []unix.PollFd{{Fd: int32(a.Worker.EventFD()), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); n != 0 {
		t.Fatalf("awake without a reason, %v", err)
	}
	net.Step(100)
	if n, err := unix.Poll(fds, 0); n != 1 {
		t.Fatalf("asleep although there is room, %v", err)
	}
	ucttest.Until(t, "its turn", func() bool { return p.Calls > 0 }, a)
	net.SetWork(verbstest.InBell)
	ucttest.Settle(a, b)
}

// TestEvents checks that an interface handles events of its device without sending anything.
func TestEvents(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	got := b.Collect(t, 1)
	// No completion reports that a queue pair in the error state would not send what is posted.
	check(t, ud.Break(a.Iface))
	ud.Tell(a.Iface, verbs.EventQPFatal)
	if err := a.Worker.Arm(); err != ucs.ErrBusy {
		t.Errorf("armed: %v", err)
	}
	a.Worker.Progress()
	ucttest.Accept(t, func() error { return ep.AMShort(1, 1, nil, 0, nil) }, a, b)
	got.Wait(t, 1, a, b)
	ud.Tell(a.Iface, verbs.EventDeviceFatal)
	if err := a.Worker.Arm(); err != ucs.ErrBusy {
		t.Errorf("armed: %v", err)
	}
	a.Worker.Progress()
	if err := a.Failed(ep); !errors.Is(err, ucs.ErrIO) {
		t.Errorf("failed: %v", err)
	}
}

// TestDoorbellFails checks that a send succeeds although its doorbell fails, and that the failure
// is reported before the worker sleeps. The interface has then failed as if its device were gone,
// and no peer is reachable from it.
func TestDoorbellFails(t *testing.T) {
	for _, async := range []string{"n", "y"} {
		net := network(t, verbstest.Config{})
		f := fixture(t, net, "UD_ASYNC", async)
		a, b := f.Pair(t)
		ep := connected(t, a, b)
		peer := uct.ReachableParams{DeviceAddr: b.Iface.DeviceAddress(), IfaceAddr: b.Iface.Address()}
		check(t, a.Iface.Reachable(peer))
		net.Devices()[0].FailCall("write", 0, syscall.EIO)
		check(t, ep.AMShort(1, 1, nil, 0, nil))
		if err := a.Worker.Arm(); err != ucs.ErrBusy {
			t.Errorf("armed: %v", err)
		}
		a.Worker.Progress()
		if len(a.Failures) != 1 || a.Failed(ep) == nil {
			t.Errorf("%+v", a.Failures)
		}
		if err := a.Iface.(uct.NetworkIface).Failed(); !errors.Is(err, syscall.EIO) {
			t.Errorf("the interface has failed with %v", err)
		}
		if err := a.Iface.Reachable(peer); !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("the peer is reachable: %v", err)
		}
		if err := b.Iface.(uct.NetworkIface).Failed(); err != nil {
			t.Errorf("the other interface has failed with %v", err)
		}
	}
}

// TestNoSleepWithRoom checks that a pending request which waits for something else than room is
// dispatched again before the worker sleeps.
func TestNoSleepWithRoom(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	for ep.AMShort(2, 0, nil, 0, nil) == nil {
	}
	ready := false
	p := ucttest.NewPending(func() error {
		if !ready {
			return ucs.ErrNoResource
		}
		return nil
	})
	check(t, ep.PendingAdd(&p.Pending))
	ucttest.Until(t, "a turn", func() bool { return p.Calls > 0 }, a, b)
	ucttest.Progress(a, b)
	if err := a.Worker.Arm(); err != ucs.ErrBusy {
		t.Errorf("armed: %v", err)
	}
	ready = true
	ucttest.Settle(a, b)
}

// TestWrongPair checks that an endpoint address is refused with the address of another interface.
func TestWrongPair(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	there, back := a.NewEndpoint(t, uct.EndpointParams{}), b.NewEndpoint(t, uct.EndpointParams{})
	addr := rigtest.Must(back.(uct.Paired).Address())(t)
	if err := there.(uct.Paired).ConnectToEP(b.Iface.DeviceAddress(), a.Iface.Address(), addr); !errors.Is(err, ucs.ErrInvalidAddr) {
		t.Errorf("connected with it: %v", err)
	}
	check(t, there.(uct.Paired).ConnectToEP(b.Iface.DeviceAddress(), b.Iface.Address(), addr))
}

// TestSleepAfterClose checks that the remains of a closed endpoint do not keep its worker awake,
// even if everything sent has completed before.
func TestSleepAfterClose(t *testing.T) {
	for _, size := range []string{"2", "256"} {
		net := network(t, verbstest.Config{})
		f := fixture(t, net, "UD_VERBS_TX_QUEUE_LEN", size)
		a, b := f.Pair(t)
		ep := connected(t, a, b)
		c := ucttest.NewCompletion(1)
		c.Finish(t, ep.AMZcopy(2, nil, nil, 0, &c.Completion), a, b) // requests a completion
		ep.Close()
		ucttest.Settle(a, b)
		for _, h := range []*ucttest.Host{a, b} {
			ucttest.Until(t, "rest", func() bool { return h.Worker.Arm() == nil }, a, b)
		}
	}
}

// TestClosedWhileMended checks that a handler may close the interface while its queue pair is
// reset, which delivers the messages received before.
func TestClosedWhileMended(t *testing.T) {
	for at := 1; at <= 4; at++ {
		net := network(t, verbstest.Config{})
		f := fixture(t, net, "UD_VERBS_RX_MAX_POLL", "2")
		a, b := f.Pair(t)
		ep := connected(t, a, b)
		for range 8 {
			c := ucttest.NewCompletion(1)
			c.Finish(t, ep.AMZcopy(2, nil, nil, 0, &c.Completion), a, b)
		}
		n := 0
		b.Handle(t, 5, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
			if n++; n == at {
				check(t, b.Iface.Close())
				if data[0] != 1 { // valid until the handler returns
					t.Errorf("%x", data)
				}
			}
			return nil
		})
		for range 4 {
			check(t, ep.AMShort(5, 1, nil, 0, nil))
		}
		check(t, ud.Break(b.Iface))
		ud.Tell(b.Iface, verbs.EventQPFatal)
		for range 20 {
			b.Worker.Progress()
		}
		if n != at {
			t.Errorf("%d messages, closed by number %d", n, at)
		}
		ep.Close()
	}
}

// closer is a completion owner that calls itself.
type closer func()

// Completed implements uct.CompletionOwner.
func (c closer) Completed(*uct.Completion) { c() }

// TestClosedByCompletion checks that the owner of a completion may close the interface, too.
func TestClosedByCompletion(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	f.Component = net.Still()
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	told := 0
	c := uct.Completion{Count: 1, Owner: closer(func() {
		told++
		ep.Close()
		check(t, a.Iface.Close())
	})}
	net.SetWork(verbstest.InStep)
	if err := ep.AMZcopy(2, nil, nil, 0, &c); err != ucs.InProgress {
		t.Fatal(err)
	}
	ep.Flush(uct.FlushCancel, nil) // the operation now waits for the device
	if told != 0 {
		t.Fatal("told before the device is done")
	}
	net.SetWork(verbstest.InBell)
	net.Progress()
	for range 20 {
		a.Worker.Progress()
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

// TestCanceledAcknowledges checks that a canceled endpoint still receives and acknowledges the
// messages of its peer.
func TestCanceledAcknowledges(t *testing.T) {
	f := fixture(t, network(t, verbstest.Config{}))
	a, b := f.Pair(t)
	there, back := connected(t, a, b), connected(t, b, a)
	if err := there.Flush(uct.FlushCancel, nil); err != nil {
		t.Fatal(err)
	}
	got := a.Collect(t, 1)
	for range 3 * 16 { // more than an initial window
		ucttest.Accept(t, func() error { return back.AMShort(1, 1, nil, 0, nil) }, a, b)
	}
	got.Wait(t, 3*16, a, b)
	c := ucttest.NewCompletion(1)
	c.Finish(t, ucttest.Accept(t, func() error { return back.Flush(uct.FlushRemote, &c.Completion) }, a, b), a, b)
	if len(a.Failures)+len(b.Failures) != 0 {
		t.Errorf("failures: %v, of the peer: %v", a.Failures, b.Failures)
	}
}

// TestControlBesideDead checks a device on which control packets need buffers: a dead peer that
// holds all buffers of messages prevents neither connecting to others nor sleeping.
func TestControlBesideDead(t *testing.T) {
	net := network(t, verbstest.Config{Limits: verbstest.Limits{Inline: 64}})
	f := fixture(t, net, "UD_TIMEOUT", "30s", "UD_TX_MAX_BUFS", "2")
	a, b, dead := f.Open(t), f.Open(t), f.Open(t)
	got := dead.Collect(t, 1)
	gone := a.Connect(t, dead)
	copied := func(ep uct.Endpoint) error {
		_, err := ep.AMBcopy(1, &ucttest.Packer{Data: make([]byte, 100)}, 0, nil)
		return err
	}
	ucttest.Accept(t, func() error { return copied(gone) }, a, dead)
	got.Wait(t, 1, a, dead)
	ucttest.Settle(a, dead)
	to := rigtest.Must(wire.ParseIfaceAddr(dead.Iface.Address()))(t)
	net.SetHook(verbstest.When(func(m *verbstest.Message) bool { return m.ToQP == to }, verbstest.Fate{Drop: true}))
	for copied(gone) == nil {
	}
	if slots, _ := ud.Held(a.Iface); slots != 2 {
		t.Fatalf("%d slots are held", slots)
	}
	gotB := b.Collect(t, 1)
	ep := a.Connect(t, b)
	ucttest.Accept(t, func() error { return ep.AMShort(1, 7, nil, 0, nil) }, a, b)
	gotB.Wait(t, 1, a, b)
	ucttest.Until(t, "rest", func() bool { return a.Worker.Arm() == nil }, a, b)
	if len(a.Failures) != 0 {
		t.Errorf("failures %+v", a.Failures)
	}
	net.SetHook(nil)
	ucttest.Settle(a, b, dead)
}

// TestMessagesBesideDead checks that dead peers do not hold all slots, so that sends to another
// peer proceed before the dead ones are detected. Requests to them are sent when they come back.
// Slots may be few because of a setting or for lack of memory.
func TestMessagesBesideDead(t *testing.T) {
	t.Run("wanted", func(t *testing.T) { testMessagesBesideDead(t, verbstest.Config{}, "UD_TX_MAX_BUFS", "32") })
	t.Run("short", func(t *testing.T) {
		testMessagesBesideDead(t, verbstest.Config{Limits: verbstest.Limits{MemLock: 640 << 10}})
	})
}

func testMessagesBesideDead(t *testing.T, here verbstest.Config, pairs ...string) {
	const conns = 3
	net := network(t, here, verbstest.Config{})
	f := fixture(t, net, append(pairs, "UD_TIMEOUT", "30s")...)
	f.Component = ibtest.Component(net.Devices()[0])
	a := f.Open(t)
	f.Component = ibtest.Component(net.Devices()[1])
	b, dead := f.Open(t), f.Open(t)
	send := func(ep uct.Endpoint, id uct.AMID) error {
		_, err := ep.AMBcopy(id, &ucttest.Packer{Data: make([]byte, 1000)}, 0, nil)
		return err
	}
	got, sent := dead.Collect(t, 1), 0
	var eps []uct.Endpoint
	for range conns {
		ep := a.Connect(t, dead)
		for range 200 { // to open the window
			ucttest.Accept(t, func() error { return send(ep, 1) }, a, dead)
			sent++
		}
		eps = append(eps, ep)
	}
	got.Wait(t, sent, a, dead)
	ucttest.Settle(a, dead)
	to := rigtest.Must(wire.ParseIfaceAddr(dead.Iface.Address()))(t)
	net.SetHook(verbstest.When(func(m *verbstest.Message) bool { return m.ToQP == to }, verbstest.Fate{Drop: true}))
	var waiting []*ucttest.Pending
	for _, ep := range eps {
		for send(ep, 1) == nil {
			sent++
		}
		w := ucttest.NewPending(func() error { return send(ep, 1) })
		check(t, ep.PendingAdd(&w.Pending))
		waiting = append(waiting, w)
		sent++
	}
	heard, ep := b.Collect(t, 2), a.Connect(t, b)
	for range 200 {
		ucttest.Accept(t, func() error { return send(ep, 2) }, a, b)
	}
	heard.Wait(t, 200, a, b)
	net.SetHook(nil)
	got.Wait(t, sent, a, b, dead)
	for _, w := range waiting {
		if w.Queued() {
			t.Error("a request waits still")
		}
	}
	if len(a.Failures) != 0 {
		t.Errorf("failures %+v", a.Failures)
	}
}
