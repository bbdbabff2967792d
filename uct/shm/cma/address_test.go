//go:build linux

package cma

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func TestAddressForms(t *testing.T) {
	inNS := address{pid: 7899, ns: host.Namespace{Other: true, Inode: 0xf0000123}}
	for _, tc := range []struct {
		name, bytes string
		want        address
		sent        bool
	}{
		{"initial namespace", "db 1e 00 00", address{pid: 7899}, true},
		{"1.22", "db 1e 00 80 23 01 00 f0", inNS, false},
		// The four bytes of padding may have any value.
		{"1.13", "db 1e 00 80 aa bb cc dd 23 01 00 f0 00 00 00 00", inNS, false},
		{"ours", "db 1e 00 80 23 01 00 f0 23 01 00 f0 00 00 00 00", inNS, true},
	} {
		b := ucttest.Unhex(t, tc.bytes)
		a, err := parseAddress(b)
		if err != nil || a != tc.want {
			t.Errorf("%s: %+v, %v; want %+v", tc.name, a, err, tc.want)
		}
		if tc.sent && !bytes.Equal(a.pack(), b) {
			t.Errorf("%s: packs to % x, want % x", tc.name, a.pack(), b)
		}
	}
	for _, bad := range []string{
		"", "db 1e 00", "db 1e 00 00 00", "db 1e 00 00 23 01 00 f0", // no namespace
		"db 1e 00 80", "db 1e 00 80 23 01 00", "db 1e 00 80 23 01 00 f0 00 00 00 00",
		"00 00 00 00", "01 00 40 00", "ff ff ff 7f", // no process id
		"00 00 00 80 23 01 00 f0",
	} {
		if a, err := parseAddress(ucttest.Unhex(t, bad)); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("%q: %+v, %v; want %v", bad, a, err, ucs.ErrInvalidAddr)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add(ucttest.Unhex(f, "db 1e 00 00"))
	f.Add(ucttest.Unhex(f, "db 1e 00 80 23 01 00 f0"))
	f.Add(ucttest.Unhex(f, "db 1e 00 80 aa bb cc dd 23 01 00 f0 00 00 00 00"))
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		a, err := parseAddress(b)
		if err != nil {
			if !errors.Is(err, ucs.ErrInvalidAddr) {
				t.Fatalf("error %v is no %v", err, ucs.ErrInvalidAddr)
			}
			return
		}
		if again, err := parseAddress(a.pack()); err != nil || again != a {
			t.Fatalf("%+v packs to % x, that reads as %+v, %v", a, a.pack(), again, err)
		}
	})
}

// TestUnreachable checks that the error names every obstacle.
func TestUnreachable(t *testing.T) {
	ucttest.NoLeaks(t)
	h := open(t)
	dev, own := h.Iface.DeviceAddress(), localAddress()
	elsewhere := bytes.Clone(dev)
	elsewhere[0] ^= 1
	otherNS := address{pid: own.pid, ns: host.Namespace{Other: true, Inode: own.ns.Inode + 1}}
	dead := newProcess(t, "usual", 0)
	dead.kill(t)
	for _, tc := range []struct {
		name, obstacle string
		dev, addr      []byte
	}{
		{"machine", "another machine", elsewhere, own.pack()},
		{"namespace", "another PID namespace", dev, otherNS.pack()},
		{"no process", "not visible", dev, address{pid: host.MaxPID, ns: own.ns}.pack()},
		{"killed", "has ended", dead.dev, dead.addr},
		{"no address", "0 bytes", dev, nil},
		{"no device address", "0 bytes", nil, own.pack()},
	} {
		err := h.Iface.Reachable(uct.ReachableParams{DeviceAddr: tc.dev, IfaceAddr: tc.addr})
		if !errors.Is(err, ucs.ErrUnreachable) || !strings.Contains(err.Error(), tc.obstacle) {
			t.Errorf("%s: Reachable = %v, want %q", tc.name, err, tc.obstacle)
		}
		_, err = h.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: tc.dev, IfaceAddr: tc.addr})
		if !errors.Is(err, ucs.ErrUnreachable) || !strings.Contains(err.Error(), tc.obstacle) {
			t.Errorf("%s: NewEndpoint = %v, want %q", tc.name, err, tc.obstacle)
		}
	}
}

// TestOtherPIDNamespace: a peer in another PID namespace is refused: its process id is not valid
// here.
func TestOtherPIDNamespace(t *testing.T) {
	h := open(t)
	flags := uintptr(syscall.CLONE_NEWPID)
	if os.Getuid() != 0 {
		flags |= syscall.CLONE_NEWUSER
	}
	p := newProcess(t, "usual", flags)
	a, err := parseAddress(p.addr)
	if err != nil || a.pid != 1 || !a.ns.Other || len(p.addr) != longAddrLen {
		t.Fatalf("address % x is %+v, %v", p.addr, a, err)
	}
	_, err = h.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
	if !errors.Is(err, ucs.ErrUnreachable) || !strings.Contains(err.Error(), "PID namespace") {
		t.Errorf("got %v", err)
	}
}
