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
	"github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// launch starts one operation of each kind that is to be told of.
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

// ended checks that operations have ended with a status, each once, and that nothing is held.
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

// connected is a connection between two hosts, over which something has gone.
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

// TestCheckWhilePolling: a worker that polls, and never sleeps, finds out by a check that the peer of
// an endpoint without anything in flight is dead. The check alone sets the timer.
func TestCheckWhilePolling(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	ucttest.Until(t, "the end of the timer", func() bool { return !ud.Alarmed(a.Iface) }, a, b)
	net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	check(t, ep.(uct.Checker).Check(nil))
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

// TestPeerIsDead: operations toward a peer that does not answer end with an error after the
// time for that, and the endpoint fails once.
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
	refused(t, ep)
}

// TestPeerIsClosed: an interface that is closed says so, and so does who drops a connection.
// Peers need not wait for that.
func TestPeerIsClosed(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := ucttest.Fixture{Component: fixture(t, net).Component, Transport: "ud_verbs", Silent: true} // patient
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

// refused checks that an endpoint takes nothing.
func refused(t *testing.T, ep uct.Endpoint) {
	t.Helper()
	c := ucttest.NewCompletion(1)
	pk := &ucttest.Packer{Data: []byte("x")}
	_, bcopy := ep.AMBcopy(1, pk, 0, &c.Completion)
	for k, err := range []error{
		ep.AMShort(1, 2, nil, 0, &c.Completion), ep.AMShortIOV(1, nil, 0, &c.Completion), ep.AMZcopy(1, pk, nil, 0, &c.Completion),
		bcopy, ep.Flush(uct.FlushLocal, &c.Completion), ep.(uct.Checker).Check(&c.Completion), ep.Fence(),
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

// TestDeviceIsRemoved under live endpoints: they fail, each once.
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
	refused(t, ep)
	if _, err := a.Iface.NewEndpoint(uct.EndpointParams{}); err == nil {
		t.Error("an endpoint of a device that is gone")
	}
	ep.Close()
	if n := ud.Connections(a.Iface); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// TestLinkGoesDown and up again: everything arrives.
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

// TestQueuePairBreaks again and again on both sides, with messages of all kinds under way:
// all arrive, once and in order, and nothing is held in the end.
func TestQueuePairBreaks(t *testing.T) {
	for _, pace := range []int{0, 1, 5} {
		t.Run(fmt.Sprint("pace ", pace), func(t *testing.T) {
			net := network(t, verbstest.Config{})
			f := fixture(t, net)
			if pace > 0 {
				f.Component = slow(net, pace)
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

// sleep lets a host sleep until its descriptor wakes it, as programs do that wait.
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

// TestAsleep: a sender that sleeps whenever it has nothing to do sends again what is lost:
// the timer wakes it. At rest no timer is set.
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
	for n := 0; ud.Alarmed(a.Iface); n++ { // rings once more at most
		if n > 100 {
			t.Fatal("a timer is set at rest")
		}
		sleep(t, a)
		ucttest.Progress(a)
	}
}

// TestCloseGoesOn: messages that were sent before an endpoint was closed arrive although
// they are lost at first; those that were not copied as well, of which the memory is the
// caller's again.
func TestCloseGoesOn(t *testing.T) {
	for _, pace := range []int{0, 1} {
		net := network(t, verbstest.Config{})
		f := fixture(t, net)
		if pace > 0 {
			f.Component = slow(net, pace)
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

// TestManyEndpoints are made, used and closed. What is left of them is gone when the time
// for that is over.
func TestManyEndpoints(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net, "UD_LINGER_TIMEOUT", "50ms", "UD_TIMEOUT", "30s") // they are made in no time, or not
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
	ep := a.Connect(t, b) // which is used, so that somebody looks
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

// TestNoMemory: a process that may pin little works, with fewer buffers.
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

// TestStrangers: for a sender that cannot be found the system is asked once, and not again
// for each that comes behind; others have connections, and new ones that can be found
// come through in the end.
func TestStrangers(t *testing.T) {
	net := network(t, verbstest.Config{}, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net)
	h := f.Open(t)
	p, q := newScriptedPeer(t, net.Devices()[1], h), newScriptedPeer(t, net.Devices()[2], h)
	bad := [16]byte(p.dev[1:17])
	var asked atomic.Int32 // by whoever makes address handles
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
		if len(q.heard()) > 0 {
			return true
		}
		q.send(q.creq(1, 0)) // as peers do that hear nothing
		return false
	}, h)
	if c := ud.Counters(h.Iface); c.Refused == 0 || c.Passive != 1 {
		t.Errorf("%d refused, %d made", c.Refused, c.Passive)
	}
}

// TestNoSleepWithDebts: nobody goes to sleep over a packet that is to be sent.
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
	check(t, ep.(uct.Checker).Check(nil))
	if err := a.Worker.Arm(); err != ucs.ErrBusy {
		t.Errorf("armed: %v", err)
	}
	a.Worker.Progress()
	if c := ud.Counters(a.Iface); c.Keepalives != 1 {
		t.Errorf("%+v", c)
	}
}

// TestDebtsFirst: who sends as much as a small queue takes answers others all the same.
func TestDebtsFirst(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net, "UD_VERBS_TX_QUEUE_LEN", "2", "UD_TIMEOUT", "30s")
	f.Component = slow(net, 1)
	a, b := f.Pair(t)
	c := f.Open(t)
	ep, other := a.Connect(t, b), c.Connect(t, a)
	b.Collect(t, 1)
	a.Collect(t, 1)
	for range 100 { // its window is open then
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

// TestTimerBeforeSleep: who goes to sleep right behind a message has the timer set.
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

// TestSleepForRoom: who waits for room in the queue sleeps until there is some.
func TestSleepForRoom(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net, "UD_VERBS_TX_QUEUE_LEN", "8", "UD_TIMEOUT", "30s", "UD_TIMER_TICK", "7s")
	f.Component = ibtest.Component(net.Devices()...)
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	for range 50 { // its window is open then
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

// TestEvents: an interface hears of what becomes of its device, without anything to send.
func TestEvents(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	ep := connected(t, a, b)
	got := b.Collect(t, 1)
	// What the queue pair was given in its error state would never go; nobody says so.
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

// TestDoorbellFails: who sends is not told, but as others are, before a sleep. The interface has
// failed as one whose device is gone: nobody is reached from there.
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
		if err := a.Iface.(uct.Failer).Failed(); !errors.Is(err, syscall.EIO) {
			t.Errorf("the interface has failed with %v", err)
		}
		if err := a.Iface.Reachable(peer); !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("the peer is reachable: %v", err)
		}
		if err := b.Iface.(uct.Failer).Failed(); err != nil {
			t.Errorf("the other interface has failed with %v", err)
		}
	}
}

// TestNoSleepWithRoom: who waits though there is room, because of something else, is
// asked again before a sleep.
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

// TestWrongPair: an endpoint of another interface than the one that is named.
func TestWrongPair(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	a, b := f.Pair(t)
	there, back := a.NewEndpoint(t, uct.EndpointParams{}), b.NewEndpoint(t, uct.EndpointParams{})
	addr := must(back.(uct.Paired).Address())(t)
	if err := there.(uct.Paired).ConnectToEP(b.Iface.DeviceAddress(), a.Iface.Address(), addr); !errors.Is(err, ucs.ErrInvalidAddr) {
		t.Errorf("connected with it: %v", err)
	}
	check(t, there.(uct.Paired).ConnectToEP(b.Iface.DeviceAddress(), b.Iface.Address(), addr))
}

// TestSleepAfterClose: what a closed endpoint leaves does not keep its worker awake, also when
// all that was sent is over by then.
func TestSleepAfterClose(t *testing.T) {
	for _, size := range []string{"2", "256"} {
		net := network(t, verbstest.Config{})
		f := fixture(t, net, "UD_VERBS_TX_QUEUE_LEN", size)
		a, b := f.Pair(t)
		ep := connected(t, a, b)
		c := ucttest.NewCompletion(1)
		c.Finish(t, ep.AMZcopy(2, nil, nil, 0, &c.Completion), a, b) // asks the device for its end
		ep.Close()
		ucttest.Settle(a, b)
		for _, h := range []*ucttest.Host{a, b} {
			ucttest.Until(t, "rest", func() bool { return h.Worker.Arm() == nil }, a, b)
		}
	}
}

// TestClosedWhileMended: a handler may close the interface while its queue pair is being set
// up anew, which delivers what had come before.
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
				if data[0] != 1 { // it is there until the handler returns
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

// closer closes when it is told of something.
type closer func()

// Completed implements uct.CompletionOwner.
func (c closer) Completed(*uct.Completion) { c() }

// TestClosedByCompletion: so may who is told that something he has sent is over.
func TestClosedByCompletion(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net)
	f.Component = ibtest.Component(net.Devices()...)
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
	ep.Flush(uct.FlushCancel, nil) // it waits for the device now
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

// TestCanceledAcknowledges: the peer of an endpoint that was canceled does not notice it: what it
// sends arrives.
func TestCanceledAcknowledges(t *testing.T) {
	f := fixture(t, network(t, verbstest.Config{}))
	a, b := f.Pair(t)
	there, back := connected(t, a, b), connected(t, b, a)
	if err := there.Flush(uct.FlushCancel, nil); err != nil {
		t.Fatal(err)
	}
	got := a.Collect(t, 1)
	for range 3 * 16 { // more than a window may start with
		ucttest.Accept(t, func() error { return back.AMShort(1, 1, nil, 0, nil) }, a, b)
	}
	got.Wait(t, 3*16, a, b)
	c := ucttest.NewCompletion(1)
	c.Finish(t, ucttest.Accept(t, func() error { return back.Flush(uct.FlushRemote, &c.Completion) }, a, b), a, b)
	if len(a.Failures)+len(b.Failures) != 0 {
		t.Errorf("failures: %v, of the peer: %v", a.Failures, b.Failures)
	}
}

// TestControlBesideDead: where control packets need buffers, a dead peer that holds all those of
// messages keeps nobody from connecting, nor from sleeping.
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
	to := must(wire.ParseIfaceAddr(dead.Iface.Address()))(t)
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

// TestMessagesBesideDead: dead peers that hold as many slots as they get leave some, so that who
// sends to another one goes on, before anybody has taken them for dead. What waits for them is
// sent when they come back. There may be few slots because that is wanted, or as memory is short.
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
		for range 200 { // which opens the window
			ucttest.Accept(t, func() error { return send(ep, 1) }, a, dead)
			sent++
		}
		eps = append(eps, ep)
	}
	got.Wait(t, sent, a, dead)
	ucttest.Settle(a, dead)
	to := must(wire.ParseIfaceAddr(dead.Iface.Address()))(t)
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
