//go:build linux

package rdmacm_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/internal/ucm"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/rdmacm/rdmacmtest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// fakeRig returns a simulated machine.
func fakeRig(t *testing.T) (*rig, *rdmacmtest.Kernel) {
	t.Helper()
	ucttest.NoLeaks(t)
	k, device := rdmacmtest.New(), verbstest.New()
	ctx := must(verbs.NewContext(device.Open(), 0))(t)
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
		if n := k.Objects() + device.Objects(); n != 0 {
			t.Errorf("%d objects left", n)
		}
	})
	home := netip.MustParseAddr("127.0.0.1")
	return &rig{
		channel: func() (*rdmacm.EventChannel, error) {
			f, err := k.Open()
			if err != nil {
				return nil, err
			}
			return rdmacm.NewChannel(f)
		},
		open: func(a rdmacm.Addr) (*verbs.Context, error) {
			if a.NodeGUID != rdmacmtest.NodeGUID {
				return nil, fmt.Errorf("GUID %v", a.NodeGUID)
			}
			return ctx, nil
		},
		client: home, server: home, progress: device.Progress,
	}, k
}

// TestFake runs the suite on a simulated machine.
func TestFake(t *testing.T) {
	for _, s := range suite {
		t.Run(s.name, func(t *testing.T) {
			r, _ := fakeRig(t)
			s.test(t, r)
		})
	}
	t.Run("IPv6", func(t *testing.T) {
		r, _ := fakeRig(t)
		r.client, r.server = netip.IPv6Loopback(), netip.IPv6Loopback()
		testConnect(t, r)
	})
}

// TestFailingCalls makes each command of a connection fail in turn: the error must name it, nothing
// may hang, and nothing may be left.
func TestFailingCalls(t *testing.T) {
	for _, name := range []string{"CREATE_ID", "BIND", "LISTEN", "QUERY", "RESOLVE_ADDR", "RESOLVE_ROUTE", "INIT_QP_ATTR",
		"CONNECT", "ACCEPT", "MIGRATE_ID", "SET_OPTION", "GET_EVENT"} {
		for skip := range 3 {
			t.Run(fmt.Sprintf("%s/%d", name, skip), func(t *testing.T) {
				r, k := fakeRig(t)
				k.FailCall(name, skip, syscall.ENOMEM)
				err := lifetime(t, r)
				k.FailCall(name, 0, 0)
				if err == nil && skip == 0 {
					t.Error("nothing failed")
				}
				if err != nil && (!errors.Is(err, syscall.ENOMEM) || !errors.Is(err, ucs.ErrNoMemory) || !strings.Contains(err.Error(), name)) {
					t.Errorf("error %v", err)
				}
			})
		}
	}
}

// lifetime makes a connection and ends it, and returns the first error.
func lifetime(t *testing.T, r *rig) error {
	ctx, cancel := context.WithCancel(timeout(t))
	defer cancel()
	cfg := r.config()
	cfg.TypeOfService, cfg.AckTimeout = 8, 14
	l, err := rdmacm.Listen(netip.AddrPortFrom(r.server, 0), cfg)
	if err != nil {
		return err
	}
	defer l.Close()
	served := make(chan error, 1)
	var failed error
	client, server := (*rdmacm.Conn)(nil), (*rdmacm.Conn)(nil)
	go func() {
		var err error
		defer func() {
			if err != nil {
				cancel()
			}
			served <- err
		}()
		if server, err = l.GetRequest(ctx); err != nil {
			return
		}
		e := r.newEnd(t, server.Addr(), verbs.RC)
		defer func() {
			if err != nil {
				server.Close()
			}
			e.close(t)
		}()
		if err = server.Accept(ctx, e.qp, nil); err == nil {
			err = server.Wait(ctx)
		}
		server.Close()
	}()
	if client, err = rdmacm.Resolve(ctx, l.Addr(), cfg); err != nil {
		failed = err
	} else {
		e := r.newEnd(t, client.Addr(), verbs.RC)
		if err := client.Connect(ctx, e.qp, nil); err != nil {
			failed = err
		} else {
			failed = client.Disconnect(ctx)
		}
		client.Close()
		e.close(t)
	}
	if failed != nil {
		cancel()
	}
	other := <-served
	if other != nil && (failed == nil || !errors.Is(failed, syscall.ENOMEM)) {
		return other
	}
	return failed
}

// TestDeviceRemoval checks that all waiting calls return when the device is removed.
func TestDeviceRemoval(t *testing.T) {
	r, k := fakeRig(t)
	l := r.listen(t)
	p := r.connect(t, l)
	k.RemoveDevice()
	wantErr(t, p.client.Wait(timeout(t)), ucs.ErrNoDevice, "a device that goes")
	_, err := l.GetRequest(timeout(t))
	wantErr(t, err, ucs.ErrNoDevice, "a listener's device that goes")
	p.close(t)
}

// TestNotify checks that Notify is refused before the handshake has begun.
func TestNotify(t *testing.T) {
	r, _ := fakeRig(t)
	ch := must(r.channel())(t)
	defer ch.Close()
	id := must(ch.CreateID(rdmacm.PortSpaceTCP, 0))(t)
	wantErr(t, id.Notify(verbs.EventCommEst), ucs.ErrInvalidParam, "too early")
	check(t, id.Close())
}

// TestErrors checks the errors of events with errors.Is.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		event  rdmacm.Event
		want   []error
		unlike error
		text   string
	}{
		{rdmacm.Event{Type: rdmacm.EventAddrError, Status: -110}, []error{ucs.ErrUnreachable, ucs.ErrTimedOut, syscall.ETIMEDOUT},
			ucs.ErrRejected, "ADDR_ERROR: connection timed out"},
		{rdmacm.Event{Type: rdmacm.EventRouteError, Status: -22}, []error{ucs.ErrUnreachable, ucs.ErrInvalidParam}, nil, "ROUTE_ERROR"},
		{rdmacm.Event{Type: rdmacm.EventUnreachable, Status: -110}, []error{ucs.ErrUnreachable, ucs.ErrTimedOut}, ucs.ErrRejected, "UNREACHABLE"},
		{rdmacm.Event{Type: rdmacm.EventUnreachable, Status: 1}, []error{ucs.ErrRejected}, nil, "no listener at the address"},
		{rdmacm.Event{Type: rdmacm.EventUnreachable, Status: 5}, []error{ucs.ErrRejected}, nil, "status 5"},
		{rdmacm.Event{Type: rdmacm.EventRejected, Status: 28}, []error{ucs.ErrRejected}, ucs.ErrUnreachable, "by the peer's application"},
		{rdmacm.Event{Type: rdmacm.EventRejected, Status: 99}, []error{ucs.ErrRejected}, nil, "reason 99"},
		{rdmacm.Event{Type: rdmacm.EventRejected, Status: -111}, []error{ucs.ErrRejected, syscall.ECONNREFUSED}, nil, "REJECTED: connection refused"},
		{rdmacm.Event{Type: rdmacm.EventRejected, Status: -104}, []error{ucs.ErrRejected, syscall.ECONNRESET}, nil, "REJECTED: connection reset"},
		{rdmacm.Event{Type: rdmacm.EventDisconnected}, []error{ucs.ErrConnectionReset}, nil, "rdmacm: DISCONNECTED"},
		{rdmacm.Event{Type: rdmacm.EventDeviceRemoval}, []error{ucs.ErrNoDevice}, nil, "DEVICE_REMOVAL"},
		{rdmacm.Event{Type: rdmacm.EventEstablished, Status: -5}, []error{ucs.ErrIO, syscall.EIO}, nil, "ESTABLISHED"},
		{rdmacm.Event{Type: 77, Status: -1 << 31}, []error{ucs.ErrIO}, nil, "EVENT_77"},
	} {
		err := c.event.Err()
		if err == nil {
			t.Errorf("%+v is no error", c.event)
			continue
		}
		for _, want := range c.want {
			wantErr(t, err, want, c.text)
		}
		if c.unlike != nil && errors.Is(err, c.unlike) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v", err)
		}
	}
	for _, typ := range []rdmacm.EventType{rdmacm.EventAddrResolved, rdmacm.EventEstablished, rdmacm.EventAddrChange} {
		if err := (&rdmacm.Event{Type: typ}).Err(); err != nil {
			t.Errorf("%v: %v", typ, err)
		}
	}
}

// TestFindDevice checks the choice among devices.
func TestFindDevice(t *testing.T) {
	gid := func(s string) []verbs.Port {
		return []verbs.Port{{Num: 1, GIDs: []verbs.PortGID{{GID: verbs.GIDFromAddr(netip.MustParseAddr(s))}}}}
	}
	list := []verbs.Device{{Name: "a", NodeGUID: 7, Ports: gid("10.0.0.1")}, {Name: "b", NodeGUID: 8, Ports: gid("10.0.0.2")},
		{Name: "c", NodeGUID: 8, Ports: gid("fe80::1")}}
	for _, c := range []struct {
		guid verbs.GUID
		src  string
		want string
	}{{7, "10.0.0.9:1", "a"}, {8, "10.0.0.2:1", "b"}, {8, "[fe80::1%lo]:1", "c"}, {8, "10.0.0.3:1", "b"}, {9, "10.0.0.1:1", ""}, {0, "10.0.0.1:1", ""}} {
		a := rdmacm.Addr{NodeGUID: c.guid, Port: 1, Src: netip.MustParseAddrPort(c.src)}
		d, err := a.FindDevice(list)
		if c.want == "" {
			wantErr(t, err, ucs.ErrNoDevice, "no device")
		} else if err != nil || d.Name != c.want {
			t.Errorf("%+v: %v, %v", a, d, err)
		}
	}
}

// TestContextsLookAgain checks that the devices are listed again if a device has the GUID but not
// the address, because the right one may be new.
func TestContextsLookAgain(t *testing.T) {
	port := verbs.Port{Num: 1, LinkLayer: verbs.LinkEthernet, GIDs: []verbs.PortGID{{GID: verbs.GIDFromAddr(netip.MustParseAddr("10.0.0.1"))}}}
	old := verbs.Device{Name: "old", Uverbs: "uverbs-none", Path: "/dev/null", NodeGUID: 7, Ports: []verbs.Port{port}}
	for src, again := range map[string]bool{"10.0.0.1:1": false, "10.0.0.2:1": true} {
		open := rdmacm.Contexts{Devices: []verbs.Device{old}}
		_, err := open.Open(rdmacm.Addr{NodeGUID: 7, Port: 1, Src: netip.MustParseAddrPort(src)})
		if err == nil || strings.Contains(err.Error(), "no device has the GUID") != again {
			t.Errorf("%s: %v", src, err)
		}
	}
}

// TestTrace checks the printed trace of calls.
func TestTrace(t *testing.T) {
	ucttest.NoLeaks(t)
	var b strings.Builder
	f := ucm.Trace(must(rdmacmtest.New().Open())(t), &b)
	ch := must(rdmacm.NewChannel(f))(t)
	id := must(ch.CreateID(rdmacm.PortSpaceTCP, 0))(t)
	check(t, id.SetTypeOfService(32))
	id.ResolveRoute(time.Second)
	ch.PollEvent()
	check(t, ch.Close())
	for _, want := range []string{"rdmacmtest: CREATE_ID{Uid=", "Ps=262, QpType=2} = 0 {Id=1}\n", "SET_OPTION{Id=1, Optlen=1} [20] = 0\n",
		"RESOLVE_ROUTE{Id=1, TimeoutMs=1000} = -22 (invalid argument)\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "GET_EVENT") {
		t.Errorf("an empty queue is printed:\n%s", b.String())
	}
}

// FuzzEvents sends arbitrary events to a channel, for existing IDs and for others.
func FuzzEvents(f *testing.F) {
	for typ := range uint32(18) {
		r := cmabi.EventResp{Event: typ}
		f.Add(byte(0), cmabi.Bytes(&r))
		f.Add(byte(1), cmabi.Bytes(&r))
		for i := range r.Param {
			r.Param[i] = 0xff
		}
		r.Status = 1 << 31
		f.Add(byte(2), cmabi.Bytes(&r))
		f.Add(byte(3), cmabi.Bytes(&r))
	}
	fuzztest.Run(f, func(t *testing.T, how byte, data []byte) {
		k := rdmacmtest.New()
		file, err := k.Open()
		check(t, err)
		ch := must(rdmacm.NewChannel(file))(t)
		ps := rdmacm.PortSpaceTCP
		if how&1 != 0 {
			ps = rdmacm.PortSpaceUDP
		}
		id := must(ch.CreateID(ps, 0))(t)
		check(t, id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("127.0.0.1:1"), time.Second))
		k.Alter(func(r *cmabi.EventResp) {
			uid, handle := r.Uid, r.Id
			copy(cmabi.Bytes(r), data)
			if how&2 == 0 {
				r.Uid = uid
			}
			if how&4 == 0 {
				r.Id = handle
			}
		})
		if e, err := ch.PollEvent(); err == nil {
			e.Err()
			if n := len(e.PrivateData()); n > 255 || e.ID == nil || uint32(e.Conn.QPN|e.UD.QPN) > 0xffffff {
				t.Errorf("%d bytes of private data: %+v", n, e)
			}
			_ = e.Type.String()
			if err := e.Err(); err != nil {
				_ = err.Error()
			}
		} else if !errors.Is(err, ucs.ErrNoMessage) {
			t.Error(err)
		}
		check(t, ch.Close())
		if k.Objects() != 0 {
			t.Errorf("%d objects left", k.Objects())
		}
	})
}

// FuzzCommands sends arbitrary commands to the simulated kernel: it must answer each with success
// or an errno, and closing must leave nothing behind.
func FuzzCommands(f *testing.F) {
	for i := range cmabi.Commands {
		f.Add([]byte{0, 0, byte(i), 1, 1, 7, byte(i), 2})
	}
	fuzztest.Run(f, func(t *testing.T, data []byte) {
		k := rdmacmtest.New()
		file := must(k.Open())(t)
		for n := 0; n < 64 && len(data) > 0; n++ {
			spec := &cmabi.Commands[int(data[0])%len(cmabi.Commands)]
			in := make([]byte, spec.In.Size())
			data = data[1+copy(in, data[1:]):]
			if field, ok := spec.In.FieldByName("Id"); ok && n%2 == 0 {
				binary.NativeEndian.PutUint32(in[field.Offset:], 1)
			}
			var out []byte
			if spec.Pointer >= 0 {
				out = make([]byte, 4)
				if spec.Out != nil {
					out = make([]byte, spec.Out.Size())
				}
			}
			file.Command(spec.ID, in, out)
		}
		check(t, file.Close())
		if k.Objects() != 0 {
			t.Errorf("%d objects left", k.Objects())
		}
		if e := file.Command(cmabi.RDMA_USER_CM_CMD_GET_EVENT, make([]byte, 8), make([]byte, 336)); e != syscall.EBADF {
			t.Errorf("a closed file answers %v", e)
		}
	})
}
