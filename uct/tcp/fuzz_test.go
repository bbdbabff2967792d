//go:build linux

package tcp

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// FuzzFrames feeds the parser a stream of bytes from a peer, cut in two. The parser must neither
// panic nor write outside exposed memory, and the iface must keep working.
func FuzzFrames(f *testing.F) {
	var everything []byte
	for _, g := range goldenFrames {
		b := ucttest.Unhex(f, g.hex)
		f.Add(b, 10)
		everything = append(everything, b...)
	}
	f.Add(everything, 50)
	peer := addr("127.0.0.1:5")
	f.Add(append(flight(peer, 0), am(3, "payload")...), 42)
	f.Add(append(flight(peer, 0), append(req(peer, 0), fin...)...), 9)
	f.Add(append(flight(peer, 1), putReq(0, 0, 0)...), 3)
	h := newHost(f, "")
	area := make([]byte, 300)
	window := area[100:200:200]
	base := h.expose(window)
	f.Add(append(append(flight(peer, 0), putReq(base+10, 5, 0)...), "12345"...), 60)
	fuzztest.Run(f, func(t *testing.T, stream []byte, cut int) {
		if len(stream) > 1<<16 {
			return
		}
		clear(area)
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fds[1])
		h.iface.accepted(fds[0], netip.AddrPort{})
		c := h.iface.conns
		cut = min(max(cut, 0), len(stream))
		for _, part := range [][]byte{stream[:cut], stream[cut:]} {
			if len(part) > 0 {
				unix.SendmsgN(fds[1], part, nil, nil, unix.MSG_NOSIGNAL)
			}
			for range 4 {
				h.w.Progress()
			}
		}
		for i, b := range area {
			if b != 0 && (i < 100 || i >= 200) {
				t.Fatalf("byte %d outside the exposed memory was written", i)
			}
		}
		if c != nil {
			c.close()
		}
		for range 4 {
			h.w.Progress()
		}
		if n := h.conns(); n != 0 || h.iface.svc.guests.n() != 0 || h.iface.svc.half.n != 0 || len(h.iface.match.entries) != 0 {
			t.Fatalf("left: %d connections, %d matched, %d half open", n, h.iface.svc.guests.n(), h.iface.svc.half.n)
		}
		h.got = nil
	})
}

// FuzzAddresses passes addresses from untrusted peers to every function that parses them.
func FuzzAddresses(f *testing.F) {
	for _, s := range []string{devEth0, devEth0v6, devLo1131, devLo1220, devLoBare, ""} {
		f.Add(ucttest.Unhex(f, s), []byte{1, 2})
	}
	h := newHost(f, "")
	fuzztest.Run(f, func(t *testing.T, dev, iface []byte) {
		d, peer, err := parsePeer(dev, iface)
		if err == nil {
			again, err := parseDeviceAddr(d.pack())
			if err != nil || again.ip != d.ip || again.loopback != d.loopback {
				t.Errorf("%x packs to %x: %+v, %v", dev, d.pack(), again, err)
			}
			if back, err := parseSockaddr(peer.appendWire(nil)); err != nil || back != peer {
				t.Errorf("%v travels as %v, %v", peer, back, err)
			}
		}
		h.iface.Reachable(uct.ReachableParams{DeviceAddr: dev, IfaceAddr: iface})
	})
}
