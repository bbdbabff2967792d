package ucp

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// neighbor opens a worker on this machine with the given settings.
func neighbor(t *testing.T, settings ...string) *Worker {
	t.Helper()
	ctx := targetContext(t, settings...)
	w := openTarget(t, ctx)
	t.Cleanup(func() {
		w.Close()
		ctx.Close()
	})
	return w
}

// exchangeBetween sends a message from one worker to another and waits until both sides are done.
func exchangeBetween(t *testing.T, from, to *Worker, n int) {
	t.Helper()
	ep, err := from.NewEndpoint(EndpointParams{Address: to.own.address})
	if err != nil {
		t.Fatal(err)
	}
	src, buf := bytes.Repeat([]byte{7}, n), make([]byte, n)
	recv, err := to.TagRecv(1, FullMask, buf, nil)
	if err != nil {
		t.Fatal(err)
	}
	send, err := ep.TagSendSync(1, src, nil)
	if err != nil {
		t.Fatal(err)
	}
	for !recv.Done() || !send.Done() {
		from.Progress()
		to.Progress()
		if ep.Err() != nil {
			break
		}
	}
	if recv.Err() != nil || send.Err() != nil || !bytes.Equal(src, buf) {
		t.Fatalf("%d bytes: %v, %v, %v", n, recv.Err(), send.Err(), ep.Err())
	}
}

// TestAddressVersions checks that workers with addresses of different versions reach each other,
// including protocols whose choice depends on attributes in the address.
func TestAddressVersions(t *testing.T) {
	for _, tls := range []string{"tcp", "posix", "posix,cma"} {
		for _, v := range [][2]string{{"v1", "v2"}, {"v2", "v1"}, {"v2", "v2"}} {
			a := neighbor(t, "TLS", tls, "NET_DEVICES", "lo", "ADDRESS_VERSION", v[0])
			b := neighbor(t, "TLS", tls, "NET_DEVICES", "lo", "ADDRESS_VERSION", v[1], "ADDRESS_DEBUG_INFO", "y")
			for _, n := range []int{0, 8, 9000, 1 << 20} {
				exchangeBetween(t, a, b, n)
				exchangeBetween(t, b, a, n)
			}
		}
	}
}

// TestAddressVersionToken checks that a token works in addresses of version 2.
func TestAddressVersionToken(t *testing.T) {
	a := neighbor(t, "TLS", "tcp", "NET_DEVICES", "lo", "ADDRESS_VERSION", "v2", "TOKEN", "y")
	b := neighbor(t, "TLS", "tcp", "NET_DEVICES", "lo", "ADDRESS_VERSION", "v2", "TOKEN", "y")
	exchangeBetween(t, a, b, 100)
}

// TestResolveRemoteID checks when an endpoint requests the id of the peer's endpoint: at its
// creation if the setting asks for it.
func TestResolveRemoteID(t *testing.T) {
	for _, tc := range []struct {
		setting, interval string
		mode              ErrMode
		want              bool
	}{
		{"off", "20s", ErrModePeer, false},
		{"on", "inf", ErrModeNone, true},
		{"auto", "20s", ErrModeNone, false},
		{"auto", "20s", ErrModePeer, true},
		{"auto", "0", ErrModePeer, false},
	} {
		w := neighbor(t, "TLS", "tcp", "NET_DEVICES", "lo", "RESOLVE_REMOTE_EP_ID", tc.setting, "KEEPALIVE_INTERVAL", tc.interval)
		ep, err := w.NewEndpoint(EndpointParams{Address: neighbor(t, "TLS", "tcp", "NET_DEVICES", "lo").own.address, ErrMode: tc.mode})
		if err != nil {
			t.Fatal(err)
		}
		if asked := ep.handshake.Unanswered(); asked != tc.want {
			t.Errorf("%+v: asked %v", tc, asked)
		}
	}
}

// TestForcedFlush checks that UCX_RNDV_PUT_FORCE_FLUSH prevents the use of the order of writes in
// place of a flush.
func TestForcedFlush(t *testing.T) {
	for setting, want := range map[string]bool{"n": true, "y": false} {
		w := neighbor(t, "TLS", "tcp", "NET_DEVICES", "lo", "RNDV_PUT_FORCE_FLUSH", setting, "RNDV_SCHEME", "put_zcopy")
		other := neighbor(t, "TLS", "tcp", "NET_DEVICES", "lo")
		ep, err := w.NewEndpoint(EndpointParams{Address: other.own.address})
		if err != nil {
			t.Fatal(err)
		}
		if len(ep.cfg.put) != 1 || ep.cfg.putInOrder != want {
			t.Errorf("forced flush %s: in order %v over %d lanes", setting, ep.cfg.putInOrder, len(ep.cfg.put))
		}
		exchangeBetween(t, w, other, 1<<20)
	}
}

// TestDeviceAtomics checks that the peer's worker executes atomic operations if the setting permits
// only devices and there is none.
func TestDeviceAtomics(t *testing.T) {
	for mode, want := range map[string]bool{"guess": true, "cpu": true, "device": false} {
		w, other := neighbor(t, "TLS", "posix", "ATOMIC_MODE", mode), neighbor(t, "TLS", "posix")
		ep, err := w.NewEndpoint(EndpointParams{Address: other.own.address})
		if err != nil {
			t.Fatal(err)
		}
		key := &Rkey{ep: ep, lanes: []rkeyLane{ep.w.rma.rkeyLaneOf(ep, ep.amLane())}}
		if lane := ep.w.rma.rmaTables(ep, key).Routes().Atomic64; (lane >= 0) != want {
			t.Errorf("%s: lane %d", mode, lane)
		}
		if ep.cfg.chosen.Lanes[0].Types.Has(proto.LaneAMO) != want {
			t.Errorf("%s: lanes %q", mode, ep.Explain().Lanes)
		}
	}
}

// backlogs is a connection manager that records the backlog of Listen.
type backlogs struct {
	uct.ConnManager
	got int
}

func (b *backlogs) Listen(at netip.AddrPort, p uct.ListenParams) (uct.Listener, error) {
	b.got = p.Backlog
	return b.ConnManager.Listen(at, p)
}

// TestBacklogOfListener checks that the setting reaches the connection manager.
func TestBacklogOfListener(t *testing.T) {
	w := neighbor(t, "TLS", "tcp", "LISTENER_BACKLOG", "3")
	k := slices.IndexFunc(w.conns.connManagers(), func(m manager) bool { return m.name == "tcp" })
	b := &backlogs{ConnManager: w.conns.managers[k].uct}
	w.conns.managers[k].uct = b
	l, err := w.NewListener(ListenerParams{Addr: netip.MustParseAddrPort("127.0.0.1:0"), OnAccept: func(*Endpoint) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if b.got != 3 {
		t.Errorf("a backlog of %d", b.got)
	}
}

// TestRefusedOverSharedMemory: a limit refuses the request of a peer over shared memory. There is no connection
// whose end would tell the peer, so it is notified, and its endpoint fails.
func TestRefusedOverSharedMemory(t *testing.T) {
	server := newTarget(t, "TLS", "posix", "MAX_UNEXP_EPS", "1")
	server.log.Allow("refusing a peer's request")
	var eps []*Endpoint
	for range 2 {
		w := neighbor(t, "TLS", "posix", "RESOLVE_REMOTE_EP_ID", "y")
		ep, err := w.NewEndpoint(EndpointParams{Address: server.own.address, ErrMode: ErrModePeer})
		if err != nil {
			t.Fatal(err)
		}
		eps = append(eps, ep)
		until(t, "answer", func() bool { w.Progress(); return ep.remoteID != 0 || ep.Err() != nil }, server)
	}
	if eps[0].Err() != nil {
		t.Errorf("the first endpoint: %v", eps[0].Err())
	}
	if err := eps[1].Err(); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("the second endpoint: %v", err)
	}
	if n := server.wireups.notices; n != 0 {
		t.Errorf("%d notices are on their way", n)
	}
}
