//go:build linux

package cm

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/rdmacm/rdmacmtest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestComponent checks the component itself, without a manager.
func TestComponent(t *testing.T) {
	c := NewComponent(newRig())
	if list, err := c.MemoryDomains(nil); len(list) != 0 || err != nil {
		t.Errorf("memory domains %v, %v", list, err)
	}
	if _, err := c.OpenMD("rxe0", nil); !errors.Is(err, ucs.ErrNoDevice) {
		t.Errorf("opening a memory domain: %v", err)
	}
	found := false
	for _, m := range uct.ConnManagers() {
		found = found || m.Name() == "rdmacm"
	}
	if !found {
		t.Error("the component of this machine is not registered")
	}
}

// absent is a machine without a connection manager.
type absent struct{ *rig }

func (absent) Channel() (*rdmacm.EventChannel, error) {
	return nil, &rdmacm.Error{Call: "open /dev/infiniband/rdma_cm", Errno: syscall.ENOENT, Hint: "check that the kernel module rdma_ucm is loaded"}
}

// TestAbsent checks that the error on such a machine names the reason.
func TestAbsent(t *testing.T) {
	ucttest.NoLeaks(t)
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	m, err := NewComponent(absent{newRig()}).OpenConnManager(w, set(t))
	if m != nil || !errors.Is(err, ucs.ErrNoDevice) || !strings.Contains(err.Error(), "rdma_ucm") {
		t.Errorf("%v, %v", m, err)
	}
}

// TestSettings checks that invalid values are refused, and the defaults.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		vars []string
		want error
		says string
	}{
		{[]string{"SOURCE_ADDRESS", "somewhere"}, ucs.ErrInvalidParam, "UCX_RDMA_CM_SOURCE_ADDRESS"},
		{[]string{"RESERVED_QPN", "y"}, ucs.ErrUnsupported, "UCX_RDMA_CM_RESERVED_QPN"},
	} {
		_, err := loadOptions(set(t, c.vars...))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.vars, err)
		}
	}
	o, err := loadOptions(set(t))
	if err != nil || o.timeout != 10*time.Second || o.source.IsValid() || o.common.ReuseAddr {
		t.Errorf("defaults: %+v, %v", o, err)
	}
	if o, err = loadOptions(set(t, "TIMEOUT", "inf", "SOURCE_ADDRESS", "::ffff:10.0.0.1")); err != nil || o.timeout != maxTimeout || !o.source.Is4() {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestSourceAddress checks that a client connects from the address in the settings, unless the
// application passes one.
func TestSourceAddress(t *testing.T) {
	ucttest.NoLeaks(t)
	h := newRig().fixture(t, "SOURCE_ADDRESS", "203.0.113.77").Open(t)
	p := uct.ConnectParams{Remote: netip.AddrPortFrom(loopback4, 7), OnConnected: func(uct.ConnEndpoint, uct.ConnectedArgs) {}}
	if _, err := h.Manager.Connect(p); !errors.Is(err, ucs.ErrNoDevice) {
		t.Errorf("from an address of no device: %v", err)
	}
	p.Local = netip.AddrPortFrom(loopback4, 0)
	if _, err := h.Manager.Connect(p); err != nil {
		t.Error(err)
	}
	p.Remote, p.Local = netip.AddrPortFrom(loopback6, 7), netip.AddrPort{}
	if _, err := h.Manager.Connect(p); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("from an address of another family: %v", err)
	}
}

// TestUnreachable checks that failures to reach the server, and devices that cannot be used, are
// reported in Progress as unreachable, which lets a client try another manager.
func TestUnreachable(t *testing.T) {
	for what, c := range map[string]struct {
		to      string
		prepare func(*rig)
	}{
		"no device":      {"127.0.0.1", func(r *rig) { r.cm.FailCall("RESOLVE_ADDR", 0, syscall.ENODEV) }},
		"nobody answers": {"198.51.100.1", func(*rig) {}},
		"no route":       {"127.0.0.1", func(r *rig) { r.cm.FailCall("RESOLVE_ROUTE", 0, syscall.EINVAL) }},
		"not ours":       {"127.0.0.1", func(r *rig) { r.refuse = fmt.Errorf("no provider: %w", ucs.ErrUnsupported) }},
		"unknown":        {"127.0.0.1", func(r *rig) { r.list = nil }},
		"iWARP":          {"127.0.0.1", func(r *rig) { r.list[0].NodeType = verbs.NodeRNIC }},
		"no queue pair":  {"127.0.0.1", func(r *rig) { r.device.FailCall("QP.CREATE", 0, syscall.ENOMEM) }},
	} {
		t.Run(what, func(t *testing.T) {
			ucttest.NoLeaks(t)
			r := newRig()
			h := r.fixture(t).Open(t)
			c.prepare(r)
			e := h.ConnectTo(t, uct.ConnectParams{Remote: netip.AddrPortFrom(netip.MustParseAddr(c.to), 7)})
			err := told(t, e, h)
			if !errors.Is(err, ucs.ErrUnreachable) || errors.Is(err, ucs.ErrRejected) {
				t.Errorf("told %v", err)
			}
			if err := e.EP.Disconnect(); !errors.Is(err, ucs.ErrNotConnected) {
				t.Errorf("disconnecting: %v", err)
			}
		})
	}
}

// TestFindAgain checks that address resolution is tried again, each time with a longer timeout.
func TestFindAgain(t *testing.T) {
	ucttest.NoLeaks(t)
	r := newRig()
	f := r.fixture(t, "TIMEOUT", "1s")
	h := f.Open(t)
	e := h.ConnectTo(t, uct.ConnectParams{Remote: netip.MustParseAddrPort("198.51.100.1:7")})
	ep := e.EP.(*endpoint)
	if ep.timeLeft != 900*time.Millisecond || ep.tryTimeout != 200*time.Millisecond {
		t.Errorf("left %v, the next %v", ep.timeLeft, ep.tryTimeout)
	}
	if err := told(t, e, h); !errors.Is(err, ucs.ErrUnreachable) || ep.timeLeft != 0 {
		t.Errorf("told %v with %v left", err, ep.timeLeft)
	}
}

// TestUnusableServer checks that a client on a device which the server cannot use is not answered
// with ErrRejected, so that it tries another path.
func TestUnusableServer(t *testing.T) {
	ucttest.NoLeaks(t)
	r := newRig()
	h := r.fixture(t).Open(t)
	l := h.Listen(t, uct.ListenParams{})
	r.refuse = fmt.Errorf("no provider: %w", ucs.ErrUnsupported)
	p := rawClient(t, r, l, rejection[:0], h)
	e := p.event(rdmacm.EventRejected)
	if status, _, err := parseData(e.PrivateData()); err == nil && status == ucs.ErrRejected {
		t.Error("the client is rejected")
	}
	if len(h.Requests) > 0 {
		t.Error("its request is shown")
	}
}

// TestWildcard checks that a listener at the wildcard address accepts both families.
func TestWildcard(t *testing.T) {
	ucttest.NoLeaks(t)
	r := newRig()
	h := r.fixture(t).Open(t)
	var got []*uct.ConnRequest
	l, err := h.Manager.Listen(netip.MustParseAddrPort("[::]:0"), uct.ListenParams{OnRequest: func(_ uct.Listener, q *uct.ConnRequest) { got = append(got, q) }})
	if err != nil {
		t.Fatal(err)
	}
	for k, to := range []netip.Addr{loopback4, loopback6} {
		h.ConnectTo(t, uct.ConnectParams{Remote: netip.AddrPortFrom(to, l.Addr().Port())})
		ucttest.UntilConn(t, "a request", func() bool { return len(got) > k }, h)
		if q := got[k]; q.LocalAddr.Addr() != to || q.Source.Addr.Addr() != to || q.Device != "rxe0:1" || q.Source.Local || q.Source.User.Known {
			t.Errorf("%+v", q)
		}
	}
	for _, at := range []string{"[::]", "0.0.0.0", "127.0.0.1"} {
		_, err := h.Manager.Listen(netip.MustParseAddrPort(fmt.Sprintf("%s:%d", at, l.Addr().Port())), uct.ListenParams{OnRequest: func(uct.Listener, *uct.ConnRequest) {}})
		if !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("listening at %s where somebody has all addresses: %v", at, err)
		}
	}
}

// TestDisconnectBeforeNotify checks a client that disconnects instead of notifying the server.
func TestDisconnectBeforeNotify(t *testing.T) {
	ucttest.NoLeaks(t)
	h := newRig().fixture(t).Open(t)
	l := h.Listen(t, uct.ListenParams{})
	client := h.Connect(t, l, nil)
	served := h.Accept(t, h.Request(t), nil)
	ucttest.UntilConn(t, "the answer", client.Up, h)
	if err := client.EP.Disconnect(); err != nil {
		t.Error(err)
	}
	if err := client.EP.Notify(); !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("notifying after that: %v", err)
	}
	ucttest.UntilConn(t, "the end", func() bool { return len(client.Ended) > 0 && len(served.Opened) > 0 }, h)
	if client.Ended[0] != nil || !errors.Is(served.Opened[0].Err, ucs.ErrConnectionReset) {
		t.Errorf("told %v and %v", client.Ended, served.Opened)
	}
}

// TestOvertaken checks that the disconnect event may arrive instead of the event of the
// notification, which came first.
func TestOvertaken(t *testing.T) {
	ucttest.NoLeaks(t)
	r := newRig()
	h := r.fixture(t).Open(t)
	l := h.Listen(t, uct.ListenParams{})
	for _, disconnects := range []bool{false, true} {
		client := h.Connect(t, l, nil)
		served := h.Accept(t, h.Request(t), nil)
		served.Then = func(what string) {
			if what == "OnNotify" && disconnects {
				if err := served.EP.Disconnect(); err != nil {
					t.Error(err)
				}
			}
		}
		ucttest.UntilConn(t, "the answer", client.Up, h)
		r.cm.Alter(func(e *cmabi.EventResp) {
			if e.Event == cmabi.RDMA_CM_EVENT_ESTABLISHED {
				e.Event = cmabi.RDMA_CM_EVENT_DISCONNECTED
			}
		})
		if err := client.EP.Notify(); err != nil {
			t.Error(err)
		}
		ucttest.UntilConn(t, "the end", func() bool { return len(served.Ended) > 0 }, h)
		r.cm.Alter(nil)
		if err := served.Opened[0].Err; err != nil {
			t.Errorf("OnNotify: %v", err)
		}
		if err := served.Ended[0]; (err == nil) != disconnects || err != nil && !errors.Is(err, ucs.ErrConnectionReset) {
			t.Errorf("OnDisconnected: %v", err)
		}
		client.EP.Close()
	}
}

// TestLinger checks that a client learns that the server closed right after its answer: after a
// delay, or when the client has notified it. Closing the manager does not wait for that.
func TestLinger(t *testing.T) {
	ucttest.NoLeaks(t)
	r := newRig()
	f := r.fixture(t)
	a, b := f.Open(t), f.Open(t)
	l := b.Listen(t, uct.ListenParams{})
	for _, notify := range []bool{false, true} {
		client := a.Connect(t, l, nil)
		served := b.Accept(t, b.Request(t, a), nil)
		served.EP.Close()
		served.EP.Close()
		ucttest.UntilConn(t, "the answer", func() bool { return len(client.Opened) > 0 }, a)
		if len(client.Ended) > 0 || !client.Up() {
			t.Error("told of the end together with the answer")
		}
		if notify {
			if err := client.EP.Notify(); err != nil {
				t.Error(err)
			}
		}
		ucttest.UntilConn(t, "the end", func() bool { return len(client.Ended) > 0 }, a, b)
		if len(served.Opened) > 0 {
			t.Errorf("the closed endpoint is told %v", served.Opened)
		}
		if m := b.Manager.(*manager); len(m.leaving) != 0 {
			t.Errorf("%d endpoints leave", len(m.leaving))
		}
	}
	client := a.Connect(t, l, nil)
	b.Accept(t, b.Request(t, a), nil).EP.Close()
	b.Close(t)
	if _, ended := client.Reported(); ended {
		t.Error("told outside of Progress")
	}
	ucttest.UntilConn(t, "the end", func() bool { _, ended := client.Reported(); return ended }, a)
}

// TestRemoval removes the device under a listener and under connections in all phases. Each end is
// notified once, the device is closed, and a new device is used afterwards.
func TestRemoval(t *testing.T) {
	ucttest.NoLeaks(t)
	r := newRig()
	f := r.fixture(t)
	a, b := f.Open(t), f.Open(t)
	l := b.Listen(t, uct.ListenParams{})
	client, served := a.Pair(t, b, l)
	half := a.Connect(t, l, nil)
	q := b.Request(t, a)
	answered := a.Connect(t, l, nil)
	late := b.Accept(t, b.Request(t, a), nil)
	ucttest.UntilConn(t, "the answer", answered.Up, a, b)
	r.device.Remove()
	r.cm.RemoveDevice()
	ended := func(e *ucttest.ConnEnd) bool { _, told := e.Reported(); return told }
	for what, e := range map[string]*ucttest.ConnEnd{"client": client, "server": served, "asked": half, "answered": answered, "not notified": late} {
		ucttest.UntilConn(t, what+" to be told", func() bool { return ended(e) }, a, b)
		want := ucs.ErrConnectionReset
		if e == half {
			want = ucs.ErrUnreachable
		}
		if err, _ := e.Reported(); !errors.Is(err, want) {
			t.Errorf("%s: told %v, want %v", what, err, want)
		}
		if err := e.EP.Disconnect(); !errors.Is(err, ucs.ErrNotConnected) {
			t.Errorf("%s: disconnecting: %v", what, err)
		}
	}
	if n := r.device.Objects(); n != 0 {
		t.Errorf("%d objects of the device that is gone", n)
	}
	r.device = verbstest.New() // a new device
	if _, err := b.TryAccept(t, q, nil); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("accepting over a device that is gone: %v", err)
	}
	l.Close()
	l = b.Listen(t, uct.ListenParams{})
	a.Pair(t, b, l)
	if len(client.Ended)+len(served.Ended)+len(half.Opened)+len(late.Opened) != 4 {
		t.Error("told more than once")
	}
}

// TestOtherDevice checks that devices with the same GUID are distinguished by their addresses, and
// that a device that was replaced is opened again.
func TestOtherDevice(t *testing.T) {
	ucttest.NoLeaks(t)
	r := newRig()
	other := verbstest.New()
	other.SetGID(1, [16]byte{})
	twins := &twins{rig: r, kernels: map[string]*verbstest.Kernel{"rxe0": other, "rxe1": r.device, "rxe2": other}}
	r.list = nil
	for _, name := range []string{"rxe0", "rxe1", "rxe2"} {
		r.list = append(r.list, verbs.Device{Name: name, NodeType: verbs.NodeCA, NodeGUID: rdmacmtest.NodeGUID})
	}
	f := r.fixture(t)
	f.Component, f.Device = NewComponent(twins), "rxe1:1"
	h := f.Open(t)
	l := h.Listen(t, uct.ListenParams{})
	client := h.Connect(t, l, nil)
	if q := h.Request(t); q.Device != "rxe1:1" || client.Packed[0].Device != "rxe1:1" {
		t.Errorf("the request comes over %s, packed for %s", q.Device, client.Packed[0].Device)
	}
	if other.Objects() != 0 {
		t.Error("the other device is still open")
	}
	client.EP.Close()
	r.device.Remove() // no event, because the manager has no object on it
	r.device = verbstest.New()
	twins.kernels["rxe1"] = r.device
	h.Connect(t, l, nil)
	h.Accept(t, h.Request(t), nil)
}

// twins is a rig with several devices of the same GUID.
type twins struct {
	*rig
	kernels map[string]*verbstest.Kernel
}

func (w *twins) Open(d *verbs.Device) (*verbs.Context, error) {
	return verbs.NewContext(w.kernels[d.Name].Open(), 0)
}

// TestShared checks that the managers of a component share one open device until the last is
// closed.
func TestShared(t *testing.T) {
	ucttest.NoLeaks(t)
	r := newRig()
	f := r.fixture(t)
	a, b := f.Open(t), f.Open(t)
	l := b.Listen(t, uct.ListenParams{})
	a.Pair(t, b, l)
	a.Pair(t, b, l)
	if len(r.opened) != 1 {
		t.Errorf("opened %v", r.opened)
	}
	b.Close(t)
	if r.device.Objects() == 0 {
		t.Error("closed with the first manager")
	}
	a.Close(t)
	if n := r.device.Objects() + r.cm.Objects(); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}

// TestListenerManagerCloses accepts requests on another goroutine while the manager of their
// listener is closed. Each request must have one outcome.
func TestListenerManagerCloses(t *testing.T) {
	for round := range 20 {
		r := newRig()
		f := r.fixture(t)
		a, b, other := f.Open(t), f.Open(t), f.Open(t)
		l := b.Listen(t, uct.ListenParams{})
		var clients []*ucttest.ConnEnd
		for range 8 {
			clients = append(clients, a.Connect(t, l, nil))
		}
		ucttest.UntilConn(t, "the requests", func() bool { return len(b.Requests) == 8 }, a, b)
		var done sync.WaitGroup
		done.Add(1)
		go func() {
			defer done.Done()
			for _, q := range b.Requests {
				if _, err := other.TryAccept(t, q, nil); err != nil && !errors.Is(err, ucs.ErrCanceled) && !errors.Is(err, ucs.ErrConnectionReset) {
					t.Errorf("accepting: %v", err)
				}
			}
		}()
		for range round {
			a.Worker.Progress()
		}
		if err := b.Manager.Close(); err != nil {
			t.Error(err)
		}
		done.Wait()
		for _, e := range clients {
			ucttest.UntilConn(t, "an outcome", func() bool { return len(e.Opened) > 0 }, a, other)
		}
	}
}
