package self

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// loop is a host with an endpoint to itself.
type loop struct {
	*ucttest.Host
	ep uct.Endpoint
}

func newLoop(t testing.TB) *loop {
	t.Helper()
	f := ucttest.Fixture{Component: component{}, Loopback: true}
	h := f.Open(t)
	return &loop{h, h.Connect(t, h)}
}

// TestDepth sends from handlers: up to a fixed depth the handlers run nested, and the next message
// waits for progress.
func TestDepth(t *testing.T) {
	l := newLoop(t)
	depth, deepest, total := 0, 0, 0
	l.Handle(t, 1, func(*uct.Source, []byte, *uct.AMDesc) error {
		depth++
		deepest = max(deepest, depth)
		total++
		if total < 100 {
			if err := l.ep.AMShort(1, 0, nil, 0, nil); err != nil {
				t.Errorf("sending from a handler: %v", err)
			}
		}
		depth--
		return nil
	})
	if err := l.ep.AMShort(1, 0, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	if total != maxDepth {
		t.Errorf("%d messages delivered inside the send, want %d", total, maxDepth)
	}
	ucttest.WantStatus(t, "arming with a backlog", l.Worker.Arm(), ucs.ErrBusy)
	rounds := 0
	for ; l.Worker.Progress() > 0; rounds++ {
		if depth != 0 {
			t.Fatal("still inside a handler")
		}
	}
	if total != 100 || deepest != maxDepth {
		t.Errorf("%d messages, %d deep, want 100 and %d", total, deepest, maxDepth)
	}
	if err := l.Worker.Arm(); err != nil {
		t.Errorf("arming afterwards: %v", err)
	}
}

// TestOrder compares with a model: messages are handled in the order of their acceptance, whichever
// endpoint sends them, inside handlers or outside.
func TestOrder(t *testing.T) {
	l := newLoop(t)
	eps := []uct.Endpoint{l.ep, l.Connect(t, l.Host), l.Connect(t, l.Host)}
	var script []int // sends that the following handlers make
	var accepted, handled uint64
	send := func() {
		ep := eps[accepted%3]
		var err error
		n := accepted
		accepted++ // before the call: the handler may run inside it
		if n%2 == 0 {
			err = ep.AMShort(1, n, make([]byte, n%50), 0, nil)
		} else {
			_, err = ep.AMBcopy(1, &ucttest.Packer{Data: []byte{byte(n), byte(n >> 8), 0, 0, 0, 0, 0, 0}}, 0, nil)
		}
		switch err {
		case nil:
		case ucs.ErrNoResource:
			accepted--
		default:
			t.Fatalf("sending: %v", err)
		}
	}
	l.Handle(t, 1, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
		if n := uint64(data[0]) | uint64(data[1])<<8; n != handled&0xffff {
			t.Fatalf("message %d handled in place %d", n, handled)
		}
		handled++
		if len(script) > 0 {
			n := script[0]
			script = script[1:]
			for range n {
				send()
			}
		}
		return nil
	})
	rapid.Check(t, func(t *rapid.T) {
		t.Repeat(map[string]func(*rapid.T){
			"plan": func(t *rapid.T) {
				script = append(script, rapid.IntRange(0, 12).Draw(t, "sends"))
			},
			"send":     func(*rapid.T) { send() },
			"progress": func(*rapid.T) { l.Worker.Progress() },
		})
		script = nil
		for l.Worker.Progress() > 0 {
		}
		if handled != accepted {
			t.Fatalf("%d messages handled, %d accepted", handled, accepted)
		}
	})
}

// atBottom runs body inside handlers that are nested as deep as possible: what body sends goes to
// the backlog.
func (l *loop) atBottom(t *testing.T, body func()) {
	t.Helper()
	depth := 0
	l.Handle(t, 30, func(*uct.Source, []byte, *uct.AMDesc) error {
		if depth++; depth < maxDepth {
			return l.ep.AMShort(30, 0, nil, 0, nil)
		}
		body()
		return nil
	})
	if err := l.ep.AMShort(30, 0, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
}

// whenFull runs body inside a handler while the backlog is full of messages with id 29.
func (l *loop) whenFull(t *testing.T, body func()) {
	t.Helper()
	l.Handle(t, 29, func(*uct.Source, []byte, *uct.AMDesc) error { return nil })
	l.atBottom(t, func() {
		for range maxBacklog {
			if err := l.ep.AMShort(29, 0, nil, 0, nil); err != nil {
				t.Fatalf("filling the backlog: %v", err)
			}
		}
		ucttest.WantStatus(t, "sending with a full backlog", l.ep.AMShort(29, 0, nil, 0, nil), ucs.ErrNoResource)
		body()
	})
}

// TestPendingIsFair: one endpoint always has pending requests; requests of other endpoints are
// dispatched in between.
func TestPendingIsFair(t *testing.T) {
	l := newLoop(t)
	greedy, modest := l.Connect(t, l.Host), l.Connect(t, l.Host)
	l.Handle(t, 1, func(*uct.Source, []byte, *uct.AMDesc) error { return nil })
	served := 0
	hog := ucttest.NewPending(func() error {
		if err := greedy.AMShort(1, 0, nil, 0, nil); err != nil {
			return err
		}
		return ucs.InProgress
	})
	other := ucttest.NewPending(func() error {
		err := modest.AMShort(1, 0, nil, 0, nil)
		if err == nil {
			served++
		}
		return err
	})
	l.whenFull(t, func() {
		for _, a := range []struct {
			ep uct.Endpoint
			p  *ucttest.Pending
		}{{greedy, hog}, {modest, other}} {
			if err := a.ep.PendingAdd(&a.p.Pending); err != nil {
				t.Errorf("adding a pending request: %v", err)
			}
		}
	})
	for round := 0; served == 0 && round < 5; round++ {
		l.Worker.Progress()
	}
	if served != 1 {
		t.Error("the second endpoint got no turn")
	}
	greedy.PendingPurge(func(*uct.Pending) {})
}

// TestDispatchDoesNotDeliver: messages that pending requests send are not handled during their
// dispatch, where their handlers could overtake the requests behind.
func TestDispatchDoesNotDeliver(t *testing.T) {
	l := newLoop(t)
	dispatching := false
	handled := 0
	l.Handle(t, 1, func(*uct.Source, []byte, *uct.AMDesc) error {
		handled++
		if dispatching {
			t.Error("handled inside a dispatch")
		}
		return nil
	})
	p := ucttest.NewPending(func() error {
		dispatching = true
		defer func() { dispatching = false }()
		return l.ep.AMShort(1, 0, nil, 0, nil)
	})
	l.whenFull(t, func() {
		if err := l.ep.PendingAdd(&p.Pending); err != nil {
			t.Errorf("adding a pending request: %v", err)
		}
	})
	for l.Worker.Progress() > 0 {
	}
	if handled != 1 {
		t.Errorf("%d messages handled, want 1", handled)
	}
}

// TestCloseWithBacklog closes everything inside the handler of the first waiting message: the other
// messages are dropped.
func TestCloseWithBacklog(t *testing.T) {
	l := newLoop(t)
	handled := 0
	l.Handle(t, 1, func(*uct.Source, []byte, *uct.AMDesc) error {
		handled++
		l.ep.Close()
		if err := l.Iface.Close(); err != nil {
			t.Errorf("closing the iface: %v", err)
		}
		return nil
	})
	l.atBottom(t, func() {
		for range 5 {
			if err := l.ep.AMShort(1, 0, nil, 0, nil); err != nil {
				t.Errorf("sending into the backlog: %v", err)
			}
		}
	})
	l.Worker.Progress()
	if handled != 1 {
		t.Errorf("%d messages handled, want the one that closes", handled)
	}
	if n := l.Worker.Progress(); n != 0 {
		t.Errorf("a closed iface did %d things", n)
	}
	ucttest.WantStatus(t, "sending on a closed endpoint", l.ep.AMShort(1, 0, nil, 0, nil), ucs.ErrNotConnected)
}

// TestBacklogDoesNotAllocate checks that messages through the backlog do not allocate.
func TestBacklogDoesNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	l := newLoop(t)
	left := 0
	l.Handle(t, 1, func(*uct.Source, []byte, *uct.AMDesc) error {
		if left > 0 {
			left--
			return l.ep.AMShort(1, 0, nil, 0, nil)
		}
		return nil
	})
	once := func() {
		left = 3 * maxDepth
		l.ep.AMShort(1, 0, nil, 0, nil)
		for l.Worker.Progress() > 0 {
		}
	}
	once()
	if n := testing.AllocsPerRun(100, once); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestRemoteDoesNotAllocate checks that no kind of remote access allocates.
func TestRemoteDoesNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	l := newLoop(t)
	m := l.Expose(t, make([]byte, 64), uct.AccessAll)
	key := l.Key(t, m)
	buf := make([]byte, 16)
	p, u := &ucttest.Packer{Data: buf}, &ucttest.Unpacker{Data: make([]byte, 0, 16)}
	var r32 uint32
	var r64 uint64
	for name, op := range map[string]func() error{
		"put short": func() error { return l.ep.(uct.RMA).PutShort(buf, m.Addr, key) },
		"put bcopy": func() error { _, err := l.ep.(uct.RMA).PutBcopy(p, 16, m.Addr, key); return err },
		"get bcopy": func() error { return l.ep.(uct.RMA).GetBcopy(u, 16, m.Addr, key, nil) },
		"post 32":   func() error { return l.ep.(uct.Atomic).Atomic32Post(uct.AtomicAdd, 1, m.Addr, key) },
		"fetch 64":  func() error { return l.ep.(uct.Atomic).Atomic64Fetch(uct.AtomicXor, 1, &r64, m.Addr, key, nil) },
		"cswap 32":  func() error { return l.ep.(uct.Atomic).AtomicCSwap32(1, 2, m.Addr, key, &r32, nil) },
	} {
		if err := op(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := testing.AllocsPerRun(100, func() { op() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
