//go:build linux

package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// bare returns an endpoint that is to be connected by key, and its address.
func (h *host) bare() (*endpoint, []byte) {
	h.t.Helper()
	e, err := h.iface.NewEndpoint(uct.EndpointParams{})
	if err != nil {
		h.t.Fatal(err)
	}
	b, err := e.(uct.Paired).Address()
	if err != nil || len(b) != h.iface.Attr().EpAddrLen {
		h.t.Fatalf("address %x, %v", b, err)
	}
	return e.(*endpoint), b
}

func TestConnectToEP(t *testing.T) {
	for _, order := range []string{"smaller first", "larger first", "larger late"} {
		t.Run(order, func(t *testing.T) {
			a, b := newHost(t, ""), newHost(t, "")
			if a.iface.addr.compare(&b.iface.addr) > 0 {
				a, b = b, a
			}
			ab, abAddr := a.bare()
			ba, baAddr := b.bare()
			if err := ab.AMShort(1, 0, nil, 0, nil); err != ucs.ErrNoResource {
				t.Errorf("send before connecting: %v", err)
			}
			smaller := func() {
				t.Helper()
				if err := ab.ConnectToEP(b.iface.DeviceAddress(), baAddr[:ifaceAddrLen], baAddr); err != nil {
					t.Fatal(err)
				}
			}
			larger := func() {
				t.Helper()
				if err := ba.ConnectToEP(a.iface.DeviceAddress(), abAddr[:ifaceAddrLen], abAddr); err != nil {
					t.Fatal(err)
				}
			}
			switch order {
			case "smaller first":
				smaller()
				larger()
			case "larger first":
				larger()
				smaller()
			case "larger late":
				smaller()
				until(t, "connect", connected(ab, ba), a, b)
				larger()
			}
			until(t, "connect", connected(ab, ba), a, b)
			exchange(t, a, b, ab, ba)
			exact(t, a, 1)
			exact(t, b, 1)
			if len(a.iface.keys)+len(b.iface.keys) != 0 {
				t.Error("keys of connected endpoints are kept")
			}
			// Closing either endpoint ends the connection of both.
			ab.Close()
			until(t, "failure", func() bool { return len(b.errs) == 1 }, a, b)
			if err := ba.ConnectToEP(a.iface.DeviceAddress(), abAddr[:ifaceAddrLen], abAddr); !errors.Is(err, ucs.ErrConnectionReset) {
				t.Errorf("connecting after the loss: %v", err)
			}
		})
	}
}

// TestConnectToEPOfOwnIface connects two endpoints of one iface with each other: one connection
// carries both directions, and both endpoints publish the same address before and after it is
// established. The second endpoint learns the address that the first has once it is connected, as
// the answer of a connection manager carries it.
func TestConnectToEPOfOwnIface(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %t", late), func(t *testing.T) {
			h := newHost(t, "")
			dev, at := h.iface.DeviceAddress(), h.iface.Address()
			client, clientAddr := h.bare()
			server, _ := h.bare()
			if err := server.ConnectToEP(dev, at, clientAddr); err != nil {
				t.Fatal(err)
			}
			serverAddr, err := server.Address()
			if err != nil {
				t.Fatal(err)
			}
			if late {
				until(t, "connect", connected(client, server), h)
			}
			if err := client.ConnectToEP(dev, at, serverAddr); err != nil {
				t.Fatal(err)
			}
			same := func() {
				t.Helper()
				now, err := client.Address()
				if err != nil || !bytes.Equal(now, serverAddr) || !client.IsConnectedTo(dev, at, serverAddr) || !server.IsConnectedTo(dev, at, now) {
					t.Errorf("addresses %x and %x, %v", now, serverAddr, err)
				}
			}
			same()
			until(t, "connect", connected(client, server), h)
			same()
			for k, ep := range []*endpoint{client, server} {
				if err := ep.AMShort(1, 0, []byte{byte('a' + k)}, 0, nil); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "messages", func() bool { return len(h.got) == 2 }, h)
			exact(t, h, 2) // the two ends of one connection
			if len(h.iface.keys) != 0 {
				t.Error("keys of connected endpoints are kept")
			}
			server.Close()
			until(t, "the end at the client", func() bool { return len(h.failed) == 1 }, h)
			if h.failed[0] != uct.Endpoint(client) {
				t.Error("another endpoint has failed")
			}
			client.Close()
		})
	}
}

// TestKeyBytes compares with the bytes of C UCX: the request carries the peer's key, there is no
// answer, and messages may follow at once.
func TestKeyBytes(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, false)
	ep, _ := h.bare()
	theirs := append([]byte{byte(l.addr.port >> 8), byte(l.addr.port)}, 3, 0, 0, 0, 0, 0, 0, 0)
	if err := ep.ConnectToEP(h.iface.DeviceAddress(), theirs[:ifaceAddrLen], theirs); err != nil {
		t.Fatal(err)
	}
	p := l.accept(h)
	p.want(magicBytes, appendRequest(nil, request{flags: reqToEP, id: 3, from: h.iface.addr}))
	until(t, "connect", connected(ep), h)
	p.send(am(1, "x"))
	until(t, "message", func() bool { return len(h.got) == 1 }, h)
	ep.Close()
	p.wantClosed()

	ep, mine := h.bare()
	key := le.Uint64(mine[2:])
	if key%2 == 0 || !bytes.Equal(mine[:2], h.iface.Address()) {
		t.Errorf("address %x", mine)
	}
	q := dial(t, h)
	q.send(magicBytes, appendRequest(nil, request{flags: reqToEP, id: key, from: addr("127.0.0.1:5")}), am(2, "glued"))
	until(t, "message", func() bool { return len(h.got) == 2 }, h)
	if err := ep.AMShort(1, 0, nil, 0, nil); err != nil {
		t.Error(err)
	}
	q.want(short(0))
	// The key is used up; neither ACK nor FIN is valid on this connection.
	r := dial(t, h)
	r.send(magicBytes, appendRequest(nil, request{flags: reqToEP, id: key, from: addr("127.0.0.1:5")}))
	r.wantClosed()
	q.send(fin)
	q.wantClosed()
	until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
}

// TestKeysAreNotGuessed: keys cannot be predicted from earlier ones. An unconnected endpoint does
// not delay a flush.
func TestKeysAreNotGuessed(t *testing.T) {
	h := newHost(t, "")
	seen := make(map[uint64]bool)
	var last uint64
	for range 50 {
		ep, b := h.bare()
		key := le.Uint64(b[ifaceAddrLen:])
		if seen[key] || key < 1<<32 || key-last < 1<<32 || last-key < 1<<32 {
			t.Errorf("key %x after %x", key, last)
		}
		if h.iface.keys[key] != ep {
			t.Errorf("key %x finds nobody", key)
		}
		seen[key], last = true, key
	}
	p := dial(t, h)
	p.send(magicBytes, appendRequest(nil, request{flags: reqToEP, id: 3, from: addr("127.0.0.1:5")}))
	p.wantClosed()
	if len(h.iface.keys) != 50 {
		t.Errorf("%d of 50 keys are left", len(h.iface.keys))
	}
}

func TestBadEndpointAddress(t *testing.T) {
	h := newHost(t, "")
	ep, good := h.bare()
	dev := h.iface.DeviceAddress()
	iface := h.iface.Address()
	for _, c := range []struct{ dev, iface, ep []byte }{
		{dev, iface, nil}, {dev, iface, good[:9]}, {dev, iface, append(good[:10:10], 0)}, {nil, iface, good}, {dev[:5], iface, good},
		{ucttest.Unhex(t, devEth0v6), iface, good},
		{dev, iface[:1], good}, {dev, []byte{iface[0], iface[1] + 1}, good}, // another listener
	} {
		if err := ep.ConnectToEP(c.dev, c.iface, c.ep); err == nil {
			t.Errorf("accepted %x %x %x", c.dev, c.iface, c.ep)
		}
	}
	made := h.connect(h)
	if _, err := made.Address(); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("address of an endpoint to an iface: %v", err)
	}
	if err := made.ConnectToEP(dev, iface, good); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("connecting it twice: %v", err)
	}
	ep.Close()
	if len(h.iface.keys) != 0 {
		t.Error("the key of a closed endpoint is kept")
	}
}

// TestKeyRefused: a connection by key to a closed listener fails as any refused connection.
func TestKeyRefused(t *testing.T) {
	h := newHost(t, "")
	l := listenRaw(t, h, false)
	l.close()
	ep, _ := h.bare()
	theirs := append([]byte{byte(l.addr.port >> 8), byte(l.addr.port)}, 3, 0, 0, 0, 0, 0, 0, 0)
	if err := ep.ConnectToEP(h.iface.DeviceAddress(), theirs[:ifaceAddrLen], theirs); err != nil {
		t.Fatal(err)
	}
	until(t, "failure", func() bool { return len(h.errs) == 1 }, h)
	if !errors.Is(h.errs[0], unix.ECONNREFUSED) {
		t.Error(h.errs[0])
	}
}
