//go:build linux

package ud_test

import (
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// absent is a host that makes no progress for much longer than its peers wait for an answer.
// Meanwhile a packet that it sent is lost, a connected peer sends to it, and an unknown peer
// connects.
type absent struct {
	host, known, stranger *ucttest.Host
	got, atKnown          *ucttest.Collector
	flushed               *ucttest.Completion
	sent                  int // messages sent by the peers
}

func beAbsent(t *testing.T, meanwhile func(x *absent), pairs ...string) *absent {
	net := network(t, verbstest.Config{})
	away, f := fixture(t, net, pairs...), fixture(t, net)
	x := &absent{host: away.Open(t), known: f.Open(t), stranger: f.Open(t)}
	own, eps := x.host.Connect(t, x.known), []uct.Endpoint{x.known.Connect(t, x.host)}
	x.got, x.atKnown = x.host.Collect(t, 1), x.known.Collect(t, 2)
	ucttest.Accept(t, func() error { return eps[0].AMShort(1, 0, nil, 0, nil) }, x.known, x.host)
	ucttest.Accept(t, func() error { return own.AMShort(2, 0, nil, 0, nil) }, x.known, x.host)
	x.got.Wait(t, 1, x.known, x.host)
	x.atKnown.Wait(t, 1, x.known, x.host)
	ucttest.Settle(x.known, x.host)
	x.sent = 1

	net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	ucttest.Accept(t, func() error { return own.AMShort(2, 0, nil, 0, nil) }, x.host)
	x.flushed = ucttest.NewCompletion(1)
	if err := own.Flush(0, &x.flushed.Completion); err != ucs.InProgress {
		t.Fatal("flushed what is lost", err)
	}
	net.SetHook(nil)
	eps = append(eps, x.stranger.Connect(t, x.host))
	for start := time.Now(); time.Since(start) < time.Second && len(x.known.Failures) == 0; meanwhile(x) {
		for _, ep := range eps {
			if ep.AMShort(1, 1, nil, 0, nil) == nil {
				x.sent++
			}
		}
		ucttest.Progress(x.known, x.stranger)
	}
	return x
}

// TestBackground checks that with background work a host without progress is not given up: it
// accepts connections, retransmits, and acknowledges a bounded number of messages. Its user is
// notified of nothing until the host makes progress again.
func TestBackground(t *testing.T) {
	x := beAbsent(t, func(x *absent) { ud.Look(x.host.Iface) }, "UD_ASYNC", "y")
	if len(x.known.Failures)+len(x.stranger.Failures)+len(x.host.Failures) != 0 {
		t.Fatalf("%+v %+v %+v", x.known.Failures, x.stranger.Failures, x.host.Failures)
	}
	if x.atKnown.Len() != 2 {
		t.Error("what was lost has not gone again")
	}
	if x.got.Len() != 1 || x.flushed.Fired != 0 {
		t.Errorf("%d messages, told %d times", x.got.Len(), x.flushed.Fired)
	}
	if c := ud.Counters(x.host.Iface); c.Halted == 0 || x.sent < 64 {
		t.Errorf("%d messages sent, halted %d times", x.sent, c.Halted)
	}
	x.got.Wait(t, x.sent, x.host, x.known, x.stranger)
	ucttest.Settle(x.host, x.known, x.stranger)
	if x.flushed.Fired != 1 || x.got.Len() != x.sent {
		t.Errorf("told %d times, %d of %d messages", x.flushed.Fired, x.got.Len(), x.sent)
	}
}

// TestNoBackground checks that without background work a host without progress is given up.
func TestNoBackground(t *testing.T) {
	x := beAbsent(t, func(*absent) { time.Sleep(time.Millisecond) })
	if len(x.known.Failures) != 1 {
		t.Errorf("%+v %+v %+v", x.known.Failures, ud.Counters(x.known.Iface), ud.Counters(x.host.Iface))
	}
	ucttest.Settle(x.host, x.known, x.stranger)
}

// TestBackgroundAlone checks that the background goroutine runs without being called, and ends with
// the interface.
func TestBackgroundAlone(t *testing.T) {
	ucttest.NoLeaks(t)
	net := network(t, verbstest.Config{})
	f := fixture(t, net, "UD_ASYNC", "y")
	a, b := f.Open(t), f.Open(t)
	ep := a.Connect(t, b)
	got := b.Collect(t, 1)
	for k := range uint64(3) {
		ucttest.Accept(t, func() error { return ep.AMShort(1, k, nil, 0, nil) }, a, b)
	}
	got.Wait(t, 3, a, b)
	if err := ep.AMShort(1, 3, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	done := ucttest.NewCompletion(1)
	done.Finish(t, ep.Flush(0, &done.Completion), a)
	if got.Len() != 3 {
		t.Errorf("%d messages", got.Len())
	}
	got.Wait(t, 4, b)
}

// TestNoSleepOverCompletions checks that a completion which was found in the background is reported
// before the worker sleeps.
func TestNoSleepOverCompletions(t *testing.T) {
	net := network(t, verbstest.Config{})
	f := fixture(t, net, "UD_ASYNC", "y")
	a, b := f.Open(t), f.Open(t)
	ep := a.Connect(t, b)
	got := b.Collect(t, 1)
	ucttest.Accept(t, func() error { return ep.AMShort(1, 0, nil, 0, nil) }, a, b)
	got.Wait(t, 1, a, b)
	ucttest.Settle(a, b)
	check(t, ep.AMShort(1, 0, nil, 0, nil))
	c := ucttest.NewCompletion(1)
	if err := ep.Flush(0, &c.Completion); err != ucs.InProgress {
		t.Fatal(err)
	}
	was := ud.Counters(a.Iface).GotAcks
	for ud.Counters(a.Iface).GotAcks == was {
		ucttest.Progress(b)
		ud.Look(a.Iface)
	}
	if c.Fired != 0 {
		t.Error("told in the background")
	}
	if err := a.Worker.Arm(); err != ucs.ErrBusy {
		t.Errorf("armed: %v", err)
	}
	if a.Worker.Progress(); c.Fired != 1 {
		t.Errorf("told %d times", c.Fired)
	}
	ucttest.Settle(a, b)
}

// TestPutOffBeforeFailure checks that messages received in the background are delivered before the
// failure of their peer is reported, even if the timer runs first.
func TestPutOffBeforeFailure(t *testing.T) {
	net := network(t, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net, "UD_ASYNC", "y")
	f.Component = net.Still()
	h := f.Open(t)
	p := newScriptedPeer(t, net.Devices()[1], h)
	ep, id := p.answered()
	got := h.Collect(t, 1)
	ud.Look(h.Iface) // records the calls of Progress so far
	p.sendWith(packed(wire.AMHeader(id, 1, 2, 1), 0, 0, 0, 0, 0, 0, 0, 0))
	p.sendWith(packed(wire.NewHeader(id, wire.FlagRefuse, 3, 1)))
	ud.Look(h.Iface)
	if c := ud.Counters(h.Iface); c.GotRefusals != 1 || got.Len() != 0 {
		t.Fatalf("%+v", c)
	}
	ud.Ring(h.Iface)
	if len(h.Failures) != 0 {
		t.Error("told before the message")
	}
	ucttest.Settle(h)
	if got.Len() != 1 || h.Failed(ep) == nil {
		t.Errorf("%d messages, %+v", got.Len(), h.Failures)
	}
}

// TestBackgroundRemoved removes the device while the background work accepts an unknown peer. It
// can fail under the race detector only.
func TestBackgroundRemoved(t *testing.T) {
	net := network(t, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net, "UD_ASYNC", "y")
	f.Component = net.Still()
	h := f.Open(t)
	p := newScriptedPeer(t, net.Devices()[1], h)
	p.sendWith(p.creq(1, 0))
	net.Devices()[0].Remove()
	h.Worker.Events().Poll() // puts the event into the interface's mailbox
	inside, done := make(chan struct{}), make(chan struct{})
	go func() {
		ud.Work(h.Iface, func() { close(inside) })
		close(done)
	}()
	<-inside
	for range 2 {
		h.Worker.Events().Poll() // outside of any call of the interface
	}
	<-done
	ucttest.Until(t, "the news", func() bool { return h.Iface.(uct.NetworkIface).Failed() != nil }, h)
}
