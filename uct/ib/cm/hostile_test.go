//go:build linux

package cm

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/internal/connkit"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestHostileClients checks that a request with malformed data or a forged source address is not
// passed to the listener. It is rejected, and counted.
func TestHostileClients(t *testing.T) {
	ucttest.NoLeaks(t)
	r := newRig()
	f := r.fixture(t)
	b := f.Open(t)
	l := b.Listen(t, uct.ListenParams{})
	for _, c := range []struct {
		what   string
		data   []byte
		from   string
		reason ledger.Reason
	}{
		{"longer than the packet", []byte{55, 0}, "", ledger.Malformed},
		{"all ones", bytes.Repeat([]byte{0xff}, 56), "", ledger.Malformed},
		{"an error", []byte{0, 0xe9}, "", ledger.Malformed},
		{"in progress", []byte{3, 1, 1, 2, 3}, "", ledger.Malformed},
		{"from elsewhere", []byte{2, 0, 'h', 'i'}, "192.0.2.1", ledger.Claim},
		{"from another family", []byte{2, 0, 'h', 'i'}, "2001:db8::1", ledger.Claim},
	} {
		before := ledger.Refusals(c.reason)
		if c.from != "" {
			r.cm.Forge(netip.MustParseAddr(c.from))
		}
		p := rawClient(t, r, l, c.data, b)
		e := p.event(rdmacm.EventRejected)
		r.cm.Forge(netip.Addr{})
		var rejected *rdmacm.RejectedError
		if !errors.As(e.Err(), &rejected) || rejected.Reason != rdmacm.RejectConsumerDefined || !bytes.HasPrefix(rejected.PrivateData, []byte{0, 0xe9, 0}) {
			t.Errorf("%s: %v with %x", c.what, e.Err(), e.PrivateData())
		}
		if ledger.Refusals(c.reason) != before+1 {
			t.Errorf("%s: not counted", c.what)
		}
		p.vanish()
	}
	if len(b.Requests) > 0 {
		t.Errorf("%d requests are shown", len(b.Requests))
	}
	// Valid data of any content is accepted.
	for _, n := range []int{0, 1, maxPrivate} {
		rawClient(t, r, l, appendData(nil, ucs.OK, ucttest.Pattern(n, 7)), b)
		if q := b.Request(t); !bytes.Equal(q.Private, ucttest.Pattern(n, 7)) {
			t.Errorf("%d bytes came as %x", n, q.Private)
		}
	}
	ucttest.SettleConn(b)
	if n := ledger.Total(ledger.Conns); n != 3 {
		t.Errorf("%d requests are charged, 3 wait", n)
	}
	l.Close()
	if n := ledger.Total(ledger.Conns); n != 0 {
		t.Errorf("%d requests are charged, none wait", n)
	}
}

// TestHostileServers checks which errors a client reports for malformed answers.
func TestHostileServers(t *testing.T) {
	ucttest.NoLeaks(t)
	r := newRig()
	f := r.fixture(t)
	a := f.Open(t)
	for _, c := range []struct {
		what   string
		data   []byte
		reject bool
		want   error
	}{
		{"nothing", nil, false, nil}, // which arrives as a field of zeros
		{"more than we send", appendData(nil, ucs.OK, make([]byte, 194)), false, nil},
		{"longer than the packet", []byte{255, 0}, false, ucs.ErrConnectionReset},
		{"a positive status", []byte{0, 1}, false, ucs.ErrConnectionReset},
		{"an error", []byte{0, 0xe9}, false, ucs.ErrRejected},
		{"another error", []byte{0, 0xfa}, false, ucs.ErrUnreachable},
		{"a rejection", []byte{0, 0xe9}, true, ucs.ErrRejected},
		{"a rejection without data", nil, true, ucs.ErrNotConnected},
		{"a rejection with another status", []byte{0, 0xfa}, true, ucs.ErrNotConnected},
		{"a rejection that is too long", []byte{255, 0xe9}, true, ucs.ErrNotConnected},
		{"a rejection of ones", bytes.Repeat([]byte{0xff}, 148), true, ucs.ErrNotConnected},
	} {
		e, p := rawServer(t, r, a)
		if c.reject {
			p.check(p.id.Reject(c.data))
		} else {
			p.check(p.id.Accept(&rdmacm.ConnParam{PrivateData: c.data, QPN: 23}))
		}
		err := told(t, e, a)
		switch {
		case c.want == nil && err != nil, c.want != nil && !errors.Is(err, c.want):
			t.Errorf("%s: told %v, want %v", c.what, err, c.want)
		case c.want != nil && c.want != ucs.ErrRejected && errors.Is(err, ucs.ErrRejected):
			t.Errorf("%s: %v is a rejection as well", c.what, err)
		}
		e.EP.Close()
		p.vanish()
	}
}

// TestReasons checks the statuses for the reject reasons of the kernel.
func TestReasons(t *testing.T) {
	for reason, want := range map[rdmacm.RejectReason]ucs.Status{
		rdmacm.RejectInvalidServiceID: ucs.ErrNotConnected,
		rdmacm.RejectConsumerDefined:  ucs.ErrNotConnected,
		rdmacm.RejectStaleConn:        ucs.ErrConnectionReset,
		rdmacm.RejectTimeout:          ucs.ErrConnectionReset,
		99:                            ucs.ErrConnectionReset,
	} {
		ep := &endpoint{Endpoint: connkit.Endpoint{Client: true}}
		e := &rdmacm.Event{Type: rdmacm.EventRejected, Status: int(reason), Conn: rdmacm.ConnParam{PrivateData: make([]byte, 148)}}
		if got := ep.statusOf(e); got != want {
			t.Errorf("%v: %v, want %v", reason, got, want)
		}
		ep.Client = false
		if got := ep.statusOf(e); got != ucs.ErrConnectionReset {
			t.Errorf("%v to a server: %v", reason, got)
		}
	}
}

// TestKilled checks the errors if the process at the other end dies at each step.
func TestKilled(t *testing.T) {
	ucttest.NoLeaks(t)
	r := newRig()
	f := r.fixture(t)
	b := f.Open(t)
	l := b.Listen(t, uct.ListenParams{})
	hello := appendData(nil, ucs.OK, []byte("hello"))

	p := rawClient(t, r, l, hello, b) // it dies after its request
	q := b.Request(t)
	p.vanish()
	if _, err := b.TryAccept(t, q, nil); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("accepting who is gone: %v", err)
	}
	p = rawClient(t, r, l, hello, b) // it dies after the answer
	served := b.Accept(t, b.Request(t), nil)
	p.event(rdmacm.EventConnectResponse)
	p.vanish()
	if err := told(t, served, b); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("a server that was not notified is told %v", err)
	}
	p = rawClient(t, r, l, hello, b) // it dies after its notification
	served = b.Accept(t, b.Request(t), nil)
	p.event(rdmacm.EventConnectResponse)
	p.check(p.id.Establish())
	ucttest.UntilConn(t, "the notification", served.Up, b)
	p.vanish()
	ucttest.UntilConn(t, "the end", func() bool { return len(served.Ended) > 0 }, b)

	e, p := rawServer(t, r, b) // it dies after the request
	p.vanish()
	if err := told(t, e, b); !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("a client whose server is gone is told %v", err)
	}
	e, p = rawServer(t, r, b) // it dies after its answer
	p.check(p.id.Accept(&rdmacm.ConnParam{QPN: 5}))
	if err := told(t, e, b); err != nil {
		t.Error(err)
	}
	p.vanish()
	ucttest.UntilConn(t, "the end", func() bool { return len(e.Ended) > 0 }, b)
	if err := e.EP.Notify(); !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("notifying who is gone: %v", err)
	}
}

// TestFlood checks that many requests of unknown clients take no more than the backlog, and that
// nothing of them is left when the listener is closed.
func TestFlood(t *testing.T) {
	ucttest.NoLeaks(t)
	r := newRig()
	f := r.fixture(t)
	b := f.Open(t)
	l := b.Listen(t, uct.ListenParams{Backlog: 5})
	for range 20 {
		for range 8 { // three more than the kernel's backlog
			rawClient(t, r, l, []byte{0, 0})
		}
		ucttest.SettleConn(b)
	}
	if len(b.Requests) != 5 {
		t.Errorf("%d requests wait, the backlog is 5", len(b.Requests))
	}
	if n := ledger.Total(ledger.Conns); n != 5 {
		t.Errorf("%d requests are charged", n)
	}
	l.Close()
	if n := ledger.Total(ledger.Conns); n != 0 {
		t.Errorf("%d requests are charged behind the end", n)
	}
}

// converse connects, notifies and disconnects, as far as that works, and reports whether all of it
// succeeded.
func converse(t *testing.T, f *ucttest.ConnFixture) bool {
	b := f.Open(t)
	var served []*ucttest.ConnEnd
	l, err := b.Manager.Listen(netip.AddrPortFrom(loopback4, 0), uct.ListenParams{OnRequest: func(_ uct.Listener, q *uct.ConnRequest) {
		if e, err := b.TryAccept(t, q, q.Private[:min(len(q.Private), maxPrivate)]); err == nil {
			served = append(served, e)
		}
	}})
	if err != nil {
		return false
	}
	ep, err := b.Manager.Connect(uct.ConnectParams{
		Remote:         l.Addr(),
		Pack:           func(_ uct.PackArgs, dst []byte) (int, error) { return copy(dst, "hello"), nil },
		OnConnected:    func(ep uct.ConnEndpoint, a uct.ConnectedArgs) { ep.Notify() },
		OnDisconnected: func(ep uct.ConnEndpoint, _ error) { ep.Disconnect() },
	})
	if err != nil {
		return false
	}
	ucttest.SettleConn(b)
	up := len(served) == 1 && served[0].Up()
	ep.Disconnect()
	ucttest.SettleConn(b)
	whole := up && len(served[0].Ended) == 1
	for _, e := range served {
		e.EP.Disconnect()
	}
	ucttest.SettleConn(b)
	ep.Close()
	l.Close()
	return whole
}

// TestFailingCalls makes each call to the kernel fail in turn. Nothing may hang or be left. Except
// for the calls in without, the conversation must fail.
func TestFailingCalls(t *testing.T) {
	without := []string{"GET_EVENT", "DESTROY_ID", "MIGRATE_ID", "REJECT", "PD.DESTROY", "CQ.DESTROY", "QP.DESTROY", "DEALLOC_PD"}
	run := func(name string, skip int, errno syscall.Errno, fail func(*rig)) {
		t.Run(fmt.Sprintf("%s/%d/%d", name, skip, errno), func(t *testing.T) {
			ucttest.NoLeaks(t)
			r := newRig()
			f := r.fixture(t, "REUSEADDR", "y")
			fail(r)
			if converse(t, f) && skip == 0 && !slices.Contains(without, name) {
				t.Error("the conversation does without")
			}
		})
	}
	for _, name := range []string{"CREATE_ID", "BIND", "LISTEN", "QUERY", "RESOLVE_ADDR", "RESOLVE_ROUTE", "INIT_QP_ATTR",
		"CONNECT", "ACCEPT", "GET_EVENT", "DISCONNECT", "DESTROY_ID", "MIGRATE_ID", "REJECT", "SET_OPTION"} {
		for skip := range 3 {
			for _, errno := range []syscall.Errno{syscall.ENOMEM, syscall.ENODEV, syscall.EINVAL, syscall.EADDRNOTAVAIL} {
				run(name, skip, errno, func(r *rig) { r.cm.FailCall(name, skip, errno) })
			}
		}
	}
	for _, name := range []string{"DEVICE.QUERY_PORT", "DEVICE.QUERY_GID_TABLE", "QP.CREATE", "CQ.CREATE", "ALLOC_PD", "mmap", "QP.DESTROY"} {
		for skip := range 3 {
			run(name, skip, syscall.ENOMEM, func(r *rig) { r.device.FailCall(name, skip, syscall.ENOMEM) })
		}
	}
}

// FuzzEvents replaces an event of the kernel by arbitrary data, with existing IDs and with others.
func FuzzEvents(f *testing.F) {
	for typ := range uint32(18) {
		r := cmabi.EventResp{Event: typ}
		f.Add(uint8(typ), uint8(typ%8), cmabi.Bytes(&r))
	}
	fuzztest.Run(f, func(t *testing.T, which, how uint8, data []byte) {
		r := newRig()
		fix := r.fixture(t)
		n := uint8(0)
		r.cm.Alter(func(e *cmabi.EventResp) {
			if n++; n-1 != which%8 {
				return
			}
			uid, id := e.Uid, e.Id
			copy(cmabi.Bytes(e), data)
			if how&1 == 0 {
				e.Uid = uid
			}
			if how&2 == 0 {
				e.Id = id
			}
		})
		converse(t, fix)
	})
}
