//go:build linux

package ud_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// two returns a host on one device, and a scripted peer on another.
func two(t testing.TB, pairs ...string) (*rigtest.Rig, *ucttest.Host, *scriptedPeer) {
	t.Helper()
	net := network(t, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net, pairs...)
	h := f.Open(t)
	return net, h, newScriptedPeer(t, net.Devices()[1], h)
}

// TestCREQBytes checks the bytes of an endpoint's CREQ.
func TestCREQBytes(t *testing.T) {
	_, h, p := two(t)
	p.endpoint()
	got := p.await("a CREQ", isCREQ)
	c := rigtest.Must(wire.ParseCREQ(got))(t)
	if c.QPN != p.target() || c.EP != 0 || c.ConnSN != 0 || c.Path != 0 || !bytes.Equal(c.DevAddr, h.Iface.DeviceAddress()) || c.Origin.PID == 0 {
		t.Errorf("%+v", c)
	}
	want := wire.AppendCREQ(nil, wire.NewHeader(wire.NullID, wire.FlagCtl, 1, 0), &c)
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got[8+1]|got[8+2]|got[8+3]|got[8+10]|got[8+11]|got[8+17]|got[8+18]|got[8+19] != 0 {
		t.Errorf("something lies in what is not used: %x", got)
	}
}

// TestMessageBytes checks the bytes that each send operation puts on the wire.
func TestMessageBytes(t *testing.T) {
	_, h, p := two(t)
	ep := p.endpoint()
	q := rigtest.Must(wire.ParseCREQ(p.await("a CREQ", isCREQ)))(t)
	if err := ep.AMShort(3, 1, nil, 0, nil); err != ucs.ErrNoResource {
		t.Fatalf("sending before the CREP: %v", err)
	}
	p.send(wire.AppendCREP(nil, wire.NewHeader(q.EP, wire.FlagCtl|wire.FlagAckReq, 1, 1), &wire.CREP{EP: 77}))
	p.await("an acknowledgement of the CREP", func(b []byte) bool { return wire.Load(b) == wire.NewHeader(77, 0, 2, 1) })
	data := h.IOV(t, []byte("data"))
	c := ucttest.NewCompletion(1)
	next, asked := wire.PSN(2), false
	ack := func() {
		p.send(packed(wire.NewHeader(q.EP, 0, 2, next-1)))
		ucttest.Settle(h)
	}
	want := func(name string, id uint8, body string) {
		t.Helper()
		got := p.await(name, func(b []byte) bool { return wire.Load(b).IsAM() && wire.Load(b).PSN() == next })
		h := wire.Load(got)
		if h.Dest() != 77 || h.AMID() != id || h.Ack() != 1 || string(got[8:]) != body {
			t.Errorf("%s: header %016x, %q; want id %d, %q", name, uint64(h), got[8:], id, body)
		}
		asked = h.AckReq()
		next++
		ack()
	}
	check(t, ep.AMShort(3, 0x0807060504030201, []byte("abc"), 0, nil))
	want("short", 3, "\x01\x02\x03\x04\x05\x06\x07\x08abc")
	check(t, ep.AMShortIOV(4, []uct.IOV{{Data: []byte("x")}, {}, {Data: []byte("yz")}}, 0, nil))
	want("short list", 4, "xyz")
	if _, err := ep.AMBcopy(31, &ucttest.Packer{Data: []byte("copied")}, 0, nil); err != nil {
		t.Fatal(err)
	}
	want("copied", 31, "copied")
	for n := 0; asked || n < 16; n++ { // until the window is open
		check(t, ep.AMShort(3, 0, nil, 0, nil))
		want("short", 3, "\x00\x00\x00\x00\x00\x00\x00\x00")
	}
	if err := ep.AMZcopy(0, &ucttest.Packer{Data: []byte("head")}, []uct.IOV{data}, 0, &c.Completion); err != ucs.InProgress {
		t.Fatal(err)
	}
	if c.Fired != 0 {
		t.Error("not copied, and complete before it is acknowledged")
	}
	want("not copied", 0, "headdata")
	if !asked {
		t.Error("who waits for his memory waits for others to send")
	}
	if c.Fired != 1 || c.Err != nil {
		t.Errorf("told %d times, %v", c.Fired, c.Err)
	}
	if err := ep.AMZcopy(1, nil, nil, 0, nil); err != ucs.InProgress {
		t.Fatal(err)
	}
	want("nothing", 1, "")
	check(t, ep.Check(nil))
	got := p.await("a keepalive", func(b []byte) bool { return wire.Load(b).Kind(len(b)) == wire.KindPut })
	if wire.Load(got).PSN() != next || !bytes.Equal(got[8:], make([]byte, 8)) {
		t.Errorf("keepalive %x", got)
	}
}

// TestRepeatedBytes checks that a retransmission has the same bytes after its header, for each send
// operation, and that the operation completes after the acknowledgement.
func TestRepeatedBytes(t *testing.T) {
	_, h, p := two(t)
	ep, id := p.answered()
	next := wire.PSN(2)
	long := bytes.Repeat([]byte("0123456789"), 15)
	iov := []uct.IOV{h.IOV(t, []byte("not")), h.IOV(t, []byte("copied"))}
	for name, send := range map[string]func(*ucttest.Completion) error{
		"short": func(*ucttest.Completion) error { return ep.AMShort(3, 7, []byte("abc"), 0, nil) },
		"copied": func(*ucttest.Completion) error {
			_, err := ep.AMBcopy(3, &ucttest.Packer{Data: long}, 0, nil)
			return err
		},
		"not copied": func(c *ucttest.Completion) error {
			return ep.AMZcopy(3, &ucttest.Packer{Data: []byte("head")}, iov, 0, &c.Completion)
		},
	} {
		c := ucttest.NewCompletion(1)
		err := send(c)
		if err != nil && err != ucs.InProgress {
			t.Fatal(err)
		}
		is := func(b []byte) bool { return wire.Load(b).IsAM() && wire.Load(b).PSN() == next }
		first := p.await(name, is)
		p.send(packed(wire.NewHeader(id, wire.FlagNack, 2, next-1)))
		again := p.await(name+" again", is)
		if !bytes.Equal(first[8:], again[8:]) || !wire.Load(again).AckReq() {
			t.Errorf("%s: %x, then %x", name, first, again)
		}
		if c.Fired != 0 {
			t.Errorf("%s: complete before it is acknowledged", name)
		}
		p.send(packed(wire.NewHeader(id, 0, 2, next)))
		if err == ucs.InProgress {
			c.Finish(t, err, h)
		}
		ucttest.Settle(h)
		next++
	}
	// Slots of retransmitted messages are reused like all others.
	for range 20 {
		check(t, ep.AMShort(3, 7, nil, 0, nil))
		p.send(packed(wire.NewHeader(id, 0, 2, next)))
		ucttest.Settle(h)
		next++
		if slots, limbo := ud.Held(h.Iface); slots != 0 || limbo != 0 {
			t.Fatalf("%d slots, and %d things in limbo, of what is acknowledged", slots, limbo)
		}
	}
}

// TestHostile checks that arbitrary packets of any length from a connected queue pair do not affect
// any connection.
func TestHostile(t *testing.T) {
	net, h, p := two(t)
	f := fixture(t, net)
	other := f.Open(t)
	st := h.Collect(t, 5)
	ep := other.Connect(t, h)
	id := p.connect(9, 0)
	for n := 0; n < 60; n++ {
		for _, flags := range []wire.Header{0, wire.FlagAckReq, wire.FlagNack, wire.FlagPut, wire.FlagCtl, wire.FlagCtl | wire.FlagPut, 1 << 30, 3 << 30} {
			for _, dest := range []uint32{id, wire.NullID, id + 1, 1 << 20} {
				pkt := packed(wire.NewHeader(dest, flags, 3, 1), make([]byte, 60)...)
				pkt[8] = byte(n % 4)
				p.send(pkt[:n])
			}
		}
	}
	p.send(packed(wire.AMHeader(id, 5, 2, 9), 1)) // acknowledges what was not sent
	ucttest.Settle(h)
	p.Received()
	if len(st.Messages) != 0 {
		t.Fatalf("%d messages", len(st.Messages))
	}
	// Both connections work.
	p.send(packed(wire.AMHeader(id, 5, 2, 1), []byte("after all")...))
	st.Wait(t, 1, h)
	ucttest.SameBytes(t, "the peer's", st.Messages[0].Data, []byte("after all"))
	ucttest.Accept(t, func() error { return ep.AMShort(5, 1, nil, 0, nil) }, other, h)
	st.Wait(t, 2, other, h)
}

// TestStrangersAddress checks that a CREQ with a forged device address is ignored, and that
// messages of a connection are accepted only from the peer's port.
func TestStrangersAddress(t *testing.T) {
	net := network(t, verbstest.Config{}, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net)
	h := f.Open(t)
	p, q := newScriptedPeer(t, net.Devices()[1], h), newScriptedPeer(t, net.Devices()[2], h)
	st := h.Collect(t, 5)
	right := p.dev
	p.dev = q.dev
	p.send(p.creq(1, 0))
	ucttest.Settle(h)
	if n := len(p.Received()) + len(q.Received()); n != 0 {
		t.Fatalf("%d answers", n)
	}
	p.dev = right
	id := p.connect(1, 0)
	for q.QPN() != p.QPN() { // same number, so that only the port differs
		q = newScriptedPeer(t, net.Devices()[2], h)
		if q.QPN() > p.QPN() {
			t.Skipf("queue pairs %d and %d", p.QPN(), q.QPN())
		}
	}
	q.send(packed(wire.AMHeader(id, 5, 2, 1), []byte("from elsewhere")...))
	ucttest.Settle(h)
	if len(st.Messages) != 0 {
		t.Fatal("a message from elsewhere was taken")
	}
	p.send(packed(wire.AMHeader(id, 5, 2, 1), []byte("from there")...))
	st.Wait(t, 1, h)
}

// TestWaking checks that CREQs and retransmissions raise an event on a peer that waits for
// solicited completions, and that first transmissions of messages do not.
func TestWaking(t *testing.T) {
	_, h, p := two(t)
	awake := func() bool {
		t.Helper()
		_, ok, err := p.Wake.TryEvent()
		check(t, err)
		check(t, p.Got.ReqNotify(true))
		return ok
	}
	if awake() {
		t.Fatal("awake")
	}
	ep := p.endpoint()
	q := rigtest.Must(wire.ParseCREQ(p.await("a CREQ", isCREQ)))(t)
	if !awake() {
		t.Error("a CREQ does not wake")
	}
	p.send(wire.AppendCREP(nil, wire.NewHeader(q.EP, wire.FlagCtl, 1, 1), &wire.CREP{EP: 77}))
	ucttest.Settle(h)
	p.Received()
	awake()
	check(t, ep.AMShort(3, 7, []byte("abc"), 0, nil))
	is := func(b []byte) bool { return wire.Load(b).IsAM() }
	p.await("a message", is)
	if awake() {
		t.Error("a message wakes")
	}
	p.send(packed(wire.NewHeader(q.EP, wire.FlagNack, 2, 1)))
	p.await("it again", is)
	if !awake() {
		t.Error("what is repeated does not wake")
	}
}

// TestRepeatedSlowly checks that a message acknowledged while the device still retransmits it
// completes only when the device is done, and that flushes wait for that, too.
func TestRepeatedSlowly(t *testing.T) {
	net := network(t, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net, "UD_VERBS_RX_MAX_POLL", "1")
	f.Component = net.Still() // whose devices do not work within progress
	h := f.Open(t)
	p := newScriptedPeer(t, net.Devices()[1], h)
	ep, id := p.answered()
	ops := []*ucttest.Completion{ucttest.NewCompletion(1), ucttest.NewCompletion(1), ucttest.NewCompletion(1)}
	if err := ep.AMZcopy(3, nil, []uct.IOV{h.IOV(t, []byte("data"))}, 0, &ops[0].Completion); err != ucs.InProgress {
		t.Fatal(err)
	}
	p.await("a message", func(b []byte) bool { return wire.Load(b).IsAM() })
	if err := ep.Flush(0, &ops[1].Completion); err != ucs.InProgress {
		t.Fatal(err)
	}
	// The NACK and the ACK arrive together, and are handled one by one.
	net.SetHook(verbstest.When(verbstest.From(net.Devices()[1]), verbstest.Fate{Hold: verbstest.UntilReleased}))
	p.send(packed(wire.NewHeader(id, wire.FlagNack, 2, 1)))
	p.send(packed(wire.NewHeader(id, 0, 2, 2)))
	net.SetWork(verbstest.InStep)
	net.Release()
	for range 4 {
		h.Worker.Progress()
	}
	if c := ud.Counters(h.Iface); c.Resent != 1 || c.GotAcks != 1 {
		t.Fatalf("%+v", c)
	}
	if err := ep.Flush(0, &ops[2].Completion); err != ucs.InProgress {
		t.Errorf("a flush behind: %v", err)
	}
	for k, c := range ops {
		if c.Fired != 0 {
			t.Errorf("operation %d is over while the device sends", k)
		}
	}
	net.Step(100)
	ucttest.Settle(h)
	for k, c := range ops {
		if c.Fired != 1 || c.Err != nil {
			t.Errorf("operation %d: told %d times, %v", k, c.Fired, c.Err)
		}
	}
	net.SetWork(verbstest.InBell)
}

// TestLeftInBuffers checks a device that does not write all bytes before an IPv4 header: bytes that
// an earlier packet left there are ignored.
func TestLeftInBuffers(t *testing.T) {
	net := network(t, verbstest.Config{GRH: verbstest.GRHHalf}, verbstest.Config{})
	f := fixture(t, net, "UD_VERBS_RX_QUEUE_LEN", "2")
	h := f.Open(t)
	p, other := newScriptedPeer(t, net.Devices()[1], h), newScriptedPeer(t, net.Devices()[1], h)
	six := func(k *verbstest.Kernel) (entry verbs.GIDEntry) {
		ctx := rigtest.Must(verbs.NewContext(k.Open(), 0))(t)
		defer ctx.Close()
		for _, e := range rigtest.Must(ctx.QueryGIDTable())(t) {
			if e.Type == verbs.GIDRoCEv2 && !e.GID.Addr().Is4() {
				return e
			}
		}
		t.Fatal("no IPv6")
		return
	}
	own, to := six(net.Devices()[1]), six(net.Devices()[0])
	a := own.To(to.GID)
	other.ah = rigtest.Must(other.PD.CreateAH(&a))(t)
	st := h.Collect(t, 5)
	id := p.connect(1, 0)
	for n := range byte(8) {
		other.send(packed(wire.NewHeader(1234, 0, 1, 1)))
		other.send(packed(wire.NewHeader(1234, 0, 1, 1)))
		ucttest.Settle(h)
		p.send(packed(wire.AMHeader(id, 5, wire.PSN(n)+2, 1), n))
		st.Wait(t, int(n)+1, h)
	}
	if c := ud.Counters(h.Iface); c.Unknown < 8 {
		t.Errorf("%+v", c)
	}
}

// TestNoOvertaking checks that the handler of a message that opens the window cannot send before
// pending requests.
func TestNoOvertaking(t *testing.T) {
	_, h, p := two(t)
	ep, id := p.answered()
	sent := 0
	for ep.AMShort(3, 0, nil, 0, nil) == nil {
		sent++
	}
	pending := ucttest.NewPending(func() error { return ep.AMShort(3, 0, []byte("who waits"), 0, nil) })
	check(t, ep.PendingAdd(&pending.Pending))
	called := 0
	h.Handle(t, 5, func(*uct.Source, []byte, *uct.AMDesc) error {
		called++
		if err := ep.AMShort(3, 0, nil, 0, nil); err != ucs.ErrNoResource {
			t.Errorf("from a handler, before those who wait: %v", err)
		}
		return nil
	})
	p.send(packed(wire.AMHeader(id, 5, 2, wire.PSN(sent)+1)))
	ucttest.Until(t, "a call", func() bool { return called == 1 && pending.Calls == 1 }, h)
	got := p.await("who waits", func(b []byte) bool { return int(wire.Load(b).PSN()) == sent+2 })
	if string(got[16:]) != "who waits" {
		t.Errorf("%q", got[8:])
	}
}

// TestNarrowPath checks that larger messages than the MTU in a peer's address are refused.
func TestNarrowPath(t *testing.T) {
	_, h, p := two(t)
	a := rigtest.Must(ib.ParseAddress(p.dev))(t)
	a.MTU = verbs.MTU1024
	p.dev = a.Append(nil)
	ep, _ := p.answered()
	mem := h.IOV(t, make([]byte, 1017))
	if err := ep.AMZcopy(3, nil, []uct.IOV{mem}, 0, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("1017 bytes, not copied: %v", err)
	}
	if _, err := ep.AMBcopy(3, &ucttest.Packer{Data: mem.Data}, 0, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("1017 bytes, copied: %v", err)
	}
	if slots, _ := ud.Held(h.Iface); slots != 0 {
		t.Errorf("%d slots are held for them", slots)
	}
	if _, err := ep.AMBcopy(3, &ucttest.Packer{Data: mem.Data[:1016]}, 0, nil); err != nil {
		t.Errorf("1016 bytes: %v", err)
	}
}

// TestFewBuffers checks that a sender with few buffers asks for the acknowledgements that release
// them.
func TestFewBuffers(t *testing.T) {
	_, h, p := two(t, "UD_VERBS_TX_MAX_BUFS", "4", "UD_TIMEOUT", "30s", "UD_TIMER_TICK", "7s")
	ep, id := p.answered()
	for n := range wire.PSN(40) { // until the window is open
		check(t, ep.AMShort(3, 0, nil, 0, nil))
		p.send(packed(wire.NewHeader(id, 0, 2, 2+n)))
		ucttest.Settle(h)
	}
	p.Received()
	sent := 0
	for ; ; sent++ {
		if err := ep.AMShort(3, 0, nil, 0, nil); err == ucs.ErrNoResource {
			break
		} else if err != nil || sent == 4 {
			t.Fatalf("message %d: %v", sent, err)
		}
	}
	pending := ucttest.NewPending(nil)
	check(t, ep.PendingAdd(&pending.Pending))
	ep.PendingPurge(func(*uct.Pending) {})
	asked := 0
	for _, b := range p.Received() {
		if wire.Load(b).AckReq() {
			asked++
		}
	}
	if asked == 0 || asked == sent {
		t.Errorf("%d of %d messages ask for an acknowledgement", asked, sent)
	}
}

// TestNewAddress adds and removes a GID of the port. Packets to it are accepted once the interface
// has handled the event.
func TestNewAddress(t *testing.T) {
	net, h, p := two(t)
	st := h.Collect(t, 5)
	id := p.connect(1, 0)
	next := wire.PSN(2)
	say := func() {
		t.Helper()
		p.send(packed(wire.AMHeader(id, 5, next, 1), byte(next)))
		st.Wait(t, int(next)-1, h)
		next++
	}
	say()
	added := verbstest.IP("10.9.77.1")
	net.Devices()[0].SetPortGID(1, 2, added)
	own := rigtest.Must(p.Ctx.DefaultGID(1))(t)
	a := own.To(added.ID)
	p.ah = rigtest.Must(p.PD.CreateAH(&a))(t)
	ucttest.Settle(h)
	say()
	say()
	net.Devices()[0].SetPortGID(1, 2, verbstest.GID{})
	ucttest.Settle(h)
	if ud.Ours(h.Iface, added.ID) {
		t.Error("an address that is gone is still one")
	}
	if len(h.Failures) != 0 {
		t.Errorf("%+v", h.Failures)
	}
}

// TestStuckDevice checks that a packet is not retransmitted again while the device has not sent it.
func TestStuckDevice(t *testing.T) {
	net := network(t, verbstest.Config{}, verbstest.Config{})
	f := fixture(t, net, "UD_TIMEOUT", "30s")
	f.Component = net.Still()
	h := f.Open(t)
	p := newScriptedPeer(t, net.Devices()[1], h)
	ep, id := p.answered()
	check(t, ep.AMShort(3, 0, nil, 0, nil))
	net.SetHook(verbstest.When(verbstest.From(net.Devices()[1]), verbstest.Fate{Hold: verbstest.UntilReleased}))
	p.send(packed(wire.NewHeader(id, wire.FlagNack, 2, 1)))
	net.SetHook(nil)
	net.SetWork(verbstest.InStep)
	net.Release()
	for range 50 { // the timer fires after 2 ms, 2 ms, 4 ms and so on
		time.Sleep(time.Millisecond)
		for range 300 {
			h.Worker.Progress()
		}
	}
	if c := ud.Counters(h.Iface); c.Resent != 1 || c.Timeouts != 0 {
		t.Errorf("%+v", c)
	}
	net.Step(100)
	ucttest.Until(t, "another look", func() bool { return ud.Counters(h.Iface).Resent > 1 }, h)
	net.SetWork(verbstest.InBell)
}

// TestAddressHandles checks that no more address handles of closed endpoints remain than the domain
// caches.
func TestAddressHandles(t *testing.T) {
	needtest.Goroutines(t)
	net, h, p := two(t)
	a := rigtest.Must(ib.ParseAddress(p.dev))(t)
	const kept, more = 256, 100
	before := net.Devices()[0].Objects()
	for n := range kept + more {
		a.GID[14], a.GID[15] = byte(n>>8)+50, byte(n)
		p.dev = a.Append(nil)
		ep := p.endpoint()
		ud.Abort(ep)
		ep.Close()
		ucttest.Settle(h)
	}
	if n := net.Devices()[0].Objects() - before; n < kept || n >= kept+more {
		t.Errorf("%d new objects, for %d peers", n, kept+more)
	}
}

// TestLateInOrder checks that messages which arrive after a pause are delivered after the late
// ones.
func TestLateInOrder(t *testing.T) {
	_, h, p := two(t, "UD_TIMEOUT", "60ms")
	id := p.connect(1, 0)
	var src *uct.Source
	var got []byte
	h.Handle(t, 5, func(s *uct.Source, data []byte, _ *uct.AMDesc) error {
		if got = append(got, data...); len(got) == 1 {
			src = s
			s.Owner.(uct.Connection).PauseSource()
		}
		return nil
	})
	send := func(n wire.PSN) { p.send(packed(wire.AMHeader(id, 5, n, 1), byte(n))) }
	send(2)
	ucttest.Settle(h)
	late := func(n wire.PSN) { // sends message n until it is taken
		was := ud.Counters(h.Iface).Delivered
		for ud.Counters(h.Iface).Delivered == was {
			time.Sleep(time.Millisecond)
			send(n)
			ucttest.Settle(h)
		}
	}
	late(3)
	if len(got) != 1 {
		t.Fatalf("%d messages while it was paused", len(got))
	}
	time.Sleep(20 * time.Millisecond)
	src.Owner.(uct.Connection).ResumeSource()
	if err := h.Worker.Arm(); err != ucs.ErrBusy {
		t.Errorf("armed: %v", err)
	}
	for len(got) < 3 {
		send(4)
		ucttest.Settle(h)
	}
	if !bytes.Equal(got, []byte{2, 3, 4}) {
		t.Errorf("%v", got)
	}
}
