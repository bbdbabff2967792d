package sim

import (
	"errors"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

const testID = 4

// link is two hosts of different components on one network, with an endpoint in each direction. The
// plan applies to the sends of a.
type link struct {
	t      *testing.T
	net    *Network
	a, b   *ucttest.Host
	ab, ba uct.Endpoint
	at     *ucttest.Collector // messages at b
}

func newLink(t *testing.T, o Options) *link {
	t.Helper()
	ucttest.NoLeaks(t)
	l := &link{t: t, net: NewNetwork()}
	o.Network = l.net
	o.Name = "a"
	fa := &ucttest.Fixture{Component: New(o)}
	fb := &ucttest.Fixture{Component: New(Options{Name: "b", Network: l.net})}
	l.a, l.b = fa.Open(t), fb.Open(t)
	l.ab, l.ba = l.a.Connect(t, l.b), l.b.Connect(t, l.a)
	l.at = l.b.Collect(t, testID)
	return l
}

// send sends the byte n and returns the completion and the result.
func (l *link) send(n byte) (*ucttest.Completion, error) {
	c := ucttest.NewCompletion(1)
	return c, l.ab.AMShort(testID, uint64(n), []byte{n}, 0, &c.Completion)
}

// rounds progresses both hosts n times.
func (l *link) rounds(n int) {
	for range n {
		ucttest.Progress(l.a, l.b)
	}
}

// numbers returns the first bytes of the messages that arrived.
func (l *link) numbers() string {
	var s []byte
	for _, m := range l.at.Messages {
		s = append(s, '0'+m.Data[0])
	}
	return string(s)
}

func TestDrop(t *testing.T) {
	l := newLink(t, Options{Plan: fault.DropAt(3)})
	for n := range byte(2) {
		if _, err := l.send(n); err != nil {
			t.Fatal(err)
		}
	}
	l.rounds(1)
	big := make([]byte, 1000)
	z := ucttest.NewCompletion(1)
	err := l.ab.AMZcopy(testID, nil, []uct.IOV{{Data: big}}, 0, &z.Completion)
	if err != ucs.InProgress {
		t.Fatalf("the operation that drops: %v", err)
	}
	if _, err := l.send(3); err != nil {
		t.Fatalf("before the failure is known: %v", err)
	}
	if len(l.a.Failures) != 0 {
		t.Fatal("reported outside of progress")
	}
	l.rounds(3)
	if got := l.numbers(); got != "01" {
		t.Errorf("messages %s arrived, want 01", got)
	}
	if z.Fired != 1 || z.Err != ucs.ErrConnectionReset {
		t.Errorf("operation in flight: told %d times, %v", z.Fired, z.Err)
	}
	// Both sides report it, once.
	for _, h := range []*ucttest.Host{l.a, l.b} {
		if len(h.Failures) != 1 || h.Failures[0].Err != ucs.ErrConnectionReset {
			t.Errorf("failures %v, want one connection reset", h.Failures)
		}
	}
	if _, err := l.send(4); err != ucs.ErrConnectionReset {
		t.Errorf("on a failed endpoint: %v", err)
	}
	if err := l.ab.Flush(uct.FlushLocal, nil); err != ucs.ErrConnectionReset {
		t.Errorf("flush of a failed endpoint: %v", err)
	}
	// A new endpoint works until its own third operation.
	l.ab = l.a.Connect(t, l.b)
	if _, err := l.send(5); err != nil {
		t.Fatal(err)
	}
	l.rounds(2)
	if got := l.numbers(); got != "015" {
		t.Errorf("messages %s arrived, want 015", got)
	}
}

func TestFail(t *testing.T) {
	l := newLink(t, Options{Plan: fault.FailAt(2, ucs.ErrTimedOut)})
	var got []error
	for n := range byte(3) {
		c, err := l.send(n)
		if err == ucs.InProgress {
			l.rounds(2)
			if c.Fired != 1 {
				t.Fatalf("message %d: told %d times", n, c.Fired)
			}
			err = c.Err
		}
		got = append(got, err)
	}
	l.rounds(2)
	if l.numbers() != "02" || got[0] != nil || got[1] != ucs.ErrTimedOut || got[2] != nil {
		t.Errorf("messages %s arrived, errors %v", l.numbers(), got)
	}
	if len(l.a.Failures) != 0 {
		t.Errorf("the endpoint failed: %v", l.a.Failures)
	}
}

func TestRefuse(t *testing.T) {
	l := newLink(t, Options{Plan: func(op fault.Op) (e fault.Effect) {
		if op.Attempt == 2 {
			e.Refuse = ucs.ErrNoMemory
		}
		return e
	}})
	p := &ucttest.Packer{Data: []byte{1, 2, 3}}
	for attempt := 1; attempt <= 3; attempt++ {
		n, err := l.ab.AMBcopy(testID, p, 0, nil)
		if attempt == 2 {
			if err != ucs.ErrNoMemory || n != 0 {
				t.Errorf("attempt 2: %d, %v", n, err)
			}
		} else if err != nil || n != 3 {
			t.Errorf("attempt %d: %d, %v", attempt, n, err)
		}
	}
	if p.Calls != 2 {
		t.Errorf("packed %d times, want 2", p.Calls)
	}
}

func TestStall(t *testing.T) {
	l := newLink(t, Options{Plan: func(op fault.Op) (e fault.Effect) {
		if op.Attempt == 2 {
			e.Stall = 3
		}
		return e
	}})
	if _, err := l.send(0); err != nil {
		t.Fatal(err)
	}
	if _, err := l.send(1); err != ucs.ErrNoResource {
		t.Fatalf("while stalled: %v", err)
	}
	var order []byte
	for n := byte(1); n <= 2; n++ {
		p := ucttest.NewPending(func() error {
			_, err := l.send(n)
			if err == nil {
				order = append(order, n)
			}
			return err
		})
		if err := l.ab.PendingAdd(&p.Pending); err != nil {
			t.Fatalf("pending while stalled: %v", err)
		}
	}
	for round := 1; round <= 3; round++ {
		if len(order) != 0 {
			t.Fatalf("sent after %d rounds, want 3", round-1)
		}
		if err := l.a.Worker.Arm(); err != ucs.ErrBusy {
			t.Fatalf("arming while stalled with a request waiting: %v", err)
		}
		l.rounds(1)
	}
	l.rounds(1)
	if string(order) != "\x01\x02" || l.numbers() != "012" {
		t.Errorf("dispatched %v, arrived %s", order, l.numbers())
	}
}

func TestLate(t *testing.T) {
	l := newLink(t, Options{Plan: fault.Late(5)})
	c, err := l.send(1)
	if err != ucs.InProgress {
		t.Fatal(err)
	}
	for round := 1; round <= 6; round++ {
		if c.Fired != 0 {
			t.Fatalf("completed after %d rounds, want 6", round-1)
		}
		l.rounds(1)
	}
	if c.Fired != 1 || l.numbers() != "1" {
		t.Errorf("told %d times, arrived %q", c.Fired, l.numbers())
	}
}

func TestCut(t *testing.T) {
	l := newLink(t, Options{Plan: fault.From(1, fault.Effect{Cut: 4})})
	l.send(1)
	z := ucttest.NewCompletion(1)
	l.ab.AMZcopy(testID, &ucttest.Packer{Data: []byte{1, 2, 3}}, []uct.IOV{{Data: []byte{4, 5}}}, 0, &z.Completion)
	l.ab.AMBcopy(testID, &ucttest.Packer{Data: []byte{9}}, 0, nil)
	l.rounds(2)
	for i, want := range []string{"\x01\x00\x00\x00\x00", "\x01", ""} {
		if got := string(l.at.Messages[i].Data); got != want {
			t.Errorf("message %d is %q, want %q", i, got, want)
		}
	}
	if z.Fired != 1 || z.Err != nil {
		t.Errorf("the sender of a cut message: told %d times, %v", z.Fired, z.Err)
	}
}

func TestReorder(t *testing.T) {
	order := func(seed uint64) string {
		net := NewNetwork()
		f := &ucttest.Fixture{Component: New(Options{Network: net, Reorder: seed})}
		a, b := f.Pair(t)
		got := b.Collect(t, testID)
		eps := []uct.Endpoint{a.Connect(t, b), a.Connect(t, b), a.Connect(t, b)}
		for n := range 30 {
			if err := eps[n%3].AMShort(testID, uint64(n), nil, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		ucttest.Settle(a, b)
		var s []byte
		last := [3]int{-1, -1, -1}
		for _, m := range got.Messages {
			n := int(m.Data[0])
			if n < last[n%3] {
				t.Errorf("endpoint %d: message %d after %d", n%3, n, last[n%3])
			}
			last[n%3] = n
			s = append(s, byte(n))
		}
		if len(s) != 30 {
			t.Fatalf("%d messages arrived", len(s))
		}
		return string(s)
	}
	plain, mixed := order(0), order(7)
	if mixed == plain || mixed == order(8) {
		t.Error("nothing was mixed")
	}
}

// TestZcopyIsReadLate: a zero-copy message is read when it is delivered, so its buffer belongs to
// the transport until the completion.
func TestZcopyIsReadLate(t *testing.T) {
	l := newLink(t, Options{})
	buf := []byte{1}
	c := ucttest.NewCompletion(1)
	if err := l.ab.AMZcopy(testID, nil, []uct.IOV{{Data: buf}}, 0, &c.Completion); err != ucs.InProgress {
		t.Fatal(err)
	}
	l.a.Worker.Progress()
	if c.Fired != 0 {
		t.Fatal("completed before it was read")
	}
	buf[0] = 2
	l.rounds(2)
	if l.numbers() != "2" || c.Fired != 1 {
		t.Errorf("arrived %q, told %d times", l.numbers(), c.Fired)
	}
	// Canceled before it was read, a message does not arrive.
	c = ucttest.NewCompletion(1)
	l.ab.AMZcopy(testID, nil, []uct.IOV{{Data: buf}}, 0, &c.Completion)
	l.ab.Close()
	if c.Fired != 1 || c.Err != ucs.ErrCanceled {
		t.Errorf("told %d times, %v", c.Fired, c.Err)
	}
	l.rounds(3)
	if l.numbers() != "2" || l.net.Pending() != 0 {
		t.Errorf("arrived %q, %d on their way", l.numbers(), l.net.Pending())
	}
}

// TestPutIsLate: a put is not visible before a round of the sender, and a flush waits for it.
func TestPutIsLate(t *testing.T) {
	l := newLink(t, Options{Latency: 2})
	m := l.b.Expose(t, make([]byte, 8), uct.AccessAll)
	key := l.a.Key(t, m)
	if err := l.ab.(uct.RMA).PutShort([]byte{7}, m.Addr, key); err != nil {
		t.Fatal(err)
	}
	c := ucttest.NewCompletion(1)
	if err := l.ab.Flush(uct.FlushRemote, &c.Completion); err != ucs.InProgress {
		t.Fatalf("flush with a put on its way: %v", err)
	}
	for round := 1; round <= 3; round++ {
		if m.Bytes[0] != 0 || c.Fired != 0 {
			t.Fatalf("visible %v, flushed %v after %d rounds, want 3", m.Bytes[0] != 0, c.Fired > 0, round-1)
		}
		l.rounds(1)
	}
	if m.Bytes[0] != 7 || c.Fired != 1 || c.Err != nil {
		t.Errorf("memory %v, flush told %d times, %v", m.Bytes, c.Fired, c.Err)
	}
}

// clock is a medium whose time the test sets.
type clock struct{ now uint64 }

func (c *clock) Now() uint64                                { return c.now }
func (c *clock) Carry(_, _ *Place, at uint64, _ int) uint64 { return at + 1 }
func (c *clock) Down(_, _ *Place) (uint64, bool)            { return 0, false }
func (c *clock) Wake(*Place, uint64)                        {}

// TestPutFollowsMessages: where the peer carries out a put itself, it first handles the messages before the put,
// even if the sender is progressed while it does so.
func TestPutFollowsMessages(t *testing.T) {
	ucttest.NoLeaks(t)
	c := &clock{1}
	o := Options{Network: NewNetwork(), Medium: c, Keyless: true}
	open := func(process uct.Process) *ucttest.Host {
		o.Place = &Place{IP: netip.MustParseAddr("192.0.2.1"), Process: process}
		return (&ucttest.Fixture{Component: New(o)}).Open(t)
	}
	a, b := open(1), open(2)
	ab := a.Connect(t, b)
	m := b.Expose(t, make([]byte, 8), uct.AccessAll)
	handled := 0
	b.Handle(t, testID, func(*uct.Source, []byte, *uct.AMDesc) error {
		ucttest.Progress(a)
		if m.Bytes[0] != 0 {
			t.Errorf("the put has passed message %d", handled)
		}
		handled++
		return nil
	})
	for range 2 {
		if err := ab.AMShort(testID, 1, nil, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := ab.(uct.RMA).PutShort([]byte{7}, m.Addr, nil); err != nil {
		t.Fatal(err)
	}
	c.now = 10
	ucttest.Progress(a, b)
	if ucttest.Progress(a); m.Bytes[0] != 7 || handled != 2 {
		t.Errorf("memory %v, %d messages handled", m.Bytes, handled)
	}
}

func TestWrongKey(t *testing.T) {
	l := newLink(t, Options{})
	m := l.b.Expose(t, make([]byte, 8), uct.AccessAll)
	own := l.a.Expose(t, make([]byte, 8), uct.AccessAll)
	if err := l.ab.(uct.RMA).PutShort([]byte{7}, m.Addr, l.a.Key(t, own)); err != nil {
		t.Fatal(err)
	}
	l.rounds(2)
	if m.Bytes[0] != 0 {
		t.Error("written with the key of another domain")
	}
	if err := l.a.Failed(l.ab); !errors.Is(err, ucs.ErrInvalidAddr) {
		t.Errorf("endpoint failed with %v", err)
	}
	if err := l.ba.(uct.RMA).PutShort([]byte{7}, m.Addr, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("without a key: %v", err)
	}
	for _, packed := range [][]byte{nil, make([]byte, keyLen-1), make([]byte, keyLen+1)} {
		if _, err := l.a.Domain.UnpackRkey(packed); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("key of %d bytes: %v", len(packed), err)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	l := newLink(t, Options{})
	ep := l.a.NewEndpoint(t, uct.EndpointParams{
		DeviceAddr: l.b.Iface.DeviceAddress(), IfaceAddr: make([]byte, ifaceAddrLen), UserData: 5,
	})
	if err := ep.AMShort(testID, 0, nil, 0, nil); err != ucs.ErrNoResource {
		t.Errorf("sending to nobody: %v", err)
	}
	l.rounds(1)
	if len(l.a.Failures) != 1 || l.a.Failures[0].UserData != 5 || !errors.Is(l.a.Failures[0].Err, ucs.ErrUnreachable) {
		t.Errorf("failures %v", l.a.Failures)
	}
	// Another network is not reachable.
	other := (&ucttest.Fixture{Component: New(Options{})}).Open(t)
	err := l.a.Iface.Reachable(uct.ReachableParams{
		DeviceAddr: other.Iface.DeviceAddress(), IfaceAddr: other.Iface.Address(),
	})
	ucttest.WantStatus(t, "another network", err, ucs.ErrUnreachable)
}

func TestNetworkDrop(t *testing.T) {
	l := newLink(t, Options{})
	l.send(1)
	if n := l.net.Pending(); n != 1 {
		t.Errorf("%d messages on their way, want 1", n)
	}
	l.net.Drop(ucs.ErrEndpointTimeout)
	l.rounds(2)
	for _, h := range []*ucttest.Host{l.a, l.b} {
		if len(h.Failures) != 1 || h.Failures[0].Err != ucs.ErrEndpointTimeout {
			t.Errorf("failures %v, want one timeout", h.Failures)
		}
	}
	if l.at.Len() != 0 {
		t.Error("a lost message arrived")
	}
}

// TestKeepData: received data that a handler keeps is unchanged until it is released, once.
func TestKeepData(t *testing.T) {
	ucttest.NoLeaks(t)
	f := &ucttest.Fixture{Component: New(Options{KeepData: true})}
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	var kept [][]byte
	var descs []*uct.AMDesc
	b.Handle(t, testID, func(_ *uct.Source, data []byte, desc *uct.AMDesc) error {
		if len(kept) == 5 {
			return nil
		}
		kept = append(kept, data)
		descs = append(descs, desc)
		return ucs.InProgress
	})
	for n := range uint64(20) {
		ucttest.Accept(t, func() error { return ep.AMShort(testID, n, nil, 0, nil) }, a, b)
		ucttest.Progress(a, b)
	}
	for n, data := range kept {
		if data[0] != byte(n) {
			t.Errorf("kept message %d holds %d", n, data[0])
		}
		descs[n].Release()
	}
	defer func() {
		if recover() == nil {
			t.Error("released twice without a complaint")
		}
	}()
	descs[0].Release()
}

// TestTwoGoroutines: each host may be progressed by its own goroutine.
func TestTwoGoroutines(t *testing.T) {
	l := newLink(t, Options{Latency: 1, Plan: fault.Storm(3, 10, 3)})
	const count = 500
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for l.at.Len() < count && !stop.Load() {
			l.b.Worker.Progress()
			runtime.Gosched()
		}
	}()
	defer func() {
		stop.Store(true)
		<-done
	}()
	bufs := make([]byte, count)
	for n := range count {
		bufs[n] = byte(n)
		c := ucttest.NewCompletion(1)
		err := ucttest.Accept(t, func() error {
			return l.ab.AMZcopy(testID, nil, []uct.IOV{{Data: bufs[n : n+1]}}, 0, &c.Completion)
		}, l.a)
		c.Finish(t, err, l.a)
		bufs[n] = 0xff // the buffer may be reused
	}
	<-done // the last message was read, so it arrives without progress of a
	for n, m := range l.at.Messages {
		if m.Data[0] != byte(n) {
			t.Fatalf("message %d holds %d", n, m.Data[0])
		}
	}
}
