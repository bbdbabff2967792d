//go:build linux

package host

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// vector is the device address that C UCX of either release published in the
// initial IPC namespace, on a machine whose boot id was
// fb41b4f6-0e6d-48f8-a5ff-c88fc2626c30.
const (
	vector       = "09 11 89 74 af 6c 94 78"
	vectorSystem = 0x78946caf74891109
)

func TestDeviceAddrForms(t *testing.T) {
	const other = "09 11 89 74 af 6c 94 f8"
	inNS := DeviceAddr{System: vectorSystem, IPC: Namespace{Other: true, Inode: 0xf0000123}}
	for _, tc := range []struct {
		name, bytes string
		want        DeviceAddr
		sent        bool // this library sends this form
	}{
		{"initial namespace", vector, DeviceAddr{System: vectorSystem}, true},
		{"1.22, other namespace", other + "23 01 00 f0", inNS, false},
		{"1.13, other namespace", other + "23 01 00 f0 00 00 00 00", inNS, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := ucttest.Unhex(t, tc.bytes)
			got, err := ParseDeviceAddr(b)
			if err != nil || got != tc.want {
				t.Fatalf("ParseDeviceAddr = %+v, %v; want %+v", got, err, tc.want)
			}
			if !tc.sent {
				return
			}
			if again := got.Append(nil); !bytes.Equal(again, b) || got.Len() != len(b) {
				t.Errorf("Append = % x of length %d, want % x", again, got.Len(), b)
			}
		})
	}
	for _, bad := range []string{
		"", "09", "09 11 89 74 af 6c 94", // truncated
		vector + "00",                    // extended
		vector + "23 01 00 f0",           // a namespace that is not announced
		other,                            // a namespace that is announced and missing
		other + "23", other + "23 01 00", // truncated
		other + "23 01 00 f0 00", other + "23 01 00 f0 00 00 00 00 00",
	} {
		if d, err := ParseDeviceAddr(ucttest.Unhex(t, bad)); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("ParseDeviceAddr(%s) = %+v, %v; want %v", bad, d, err, ucs.ErrInvalidAddr)
		}
		err := DeviceAddr{System: vectorSystem}.ReachAddr(ucttest.Unhex(t, bad))
		if !errors.Is(err, ucs.ErrUnreachable) || !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("ReachAddr(%s) = %v", bad, err)
		}
	}
}

func TestReach(t *testing.T) {
	here := DeviceAddr{System: 1}
	ns7 := DeviceAddr{System: 1, IPC: Namespace{Other: true, Inode: 7}}
	ns8 := DeviceAddr{System: 1, IPC: Namespace{Other: true, Inode: 8}}
	for _, tc := range []struct {
		own, peer DeviceAddr
		obstacle  string // empty: none
	}{
		{here, here, ""},
		{ns7, ns7, ""},
		{here, DeviceAddr{System: 2}, "another machine"},
		{ns7, DeviceAddr{System: 2, IPC: ns7.IPC}, "another machine"},
		{ns7, ns8, "IPC namespace, 8, this process is in 7"},
		{here, ns7, "IPC namespace, 7, this process is in initial"},
		{ns7, here, "IPC namespace, initial, this process is in 7"},
	} {
		for form, err := range map[string]error{
			"Reach":     tc.own.Reach(tc.peer),
			"ReachAddr": tc.own.ReachAddr(tc.peer.Append(nil)),
		} {
			switch {
			case tc.obstacle == "":
				if err != nil {
					t.Errorf("%s: %+v to %+v: %v", form, tc.own, tc.peer, err)
				}
			case !errors.Is(err, ucs.ErrUnreachable) || !strings.Contains(err.Error(), tc.obstacle):
				t.Errorf("%s: %+v to %+v: %v, want %q", form, tc.own, tc.peer, err, tc.obstacle)
			}
		}
	}
	if err := here.IPC.ReachPID(ns7.IPC); !errors.Is(err, ucs.ErrUnreachable) || !strings.Contains(err.Error(), "PID") {
		t.Errorf("ReachPID = %v", err)
	}
	if err := ns7.IPC.ReachPID(ns7.IPC); err != nil {
		t.Errorf("ReachPID of the same = %v", err)
	}
}

func TestLocalDeviceAddr(t *testing.T) {
	d := LocalDeviceAddr()
	if want := topo.SystemID() &^ (1 << 63); d.System != want {
		t.Errorf("system %#x, want %#x", d.System, want)
	}
	inode, initial := topo.Namespace(topo.NamespaceIPC)
	if d.IPC.Other == initial || d.IPC.Other && d.IPC.Inode != uint32(inode) {
		t.Errorf("IPC namespace %+v, want %d, initial %v", d.IPC, inode, initial)
	}
	if err := d.ReachAddr(d.Append(nil)); err != nil {
		t.Errorf("this process does not reach itself: %v", err)
	}
}

func TestNamespaceForms(t *testing.T) {
	ns := Namespace{Other: true, Inode: 0xf0000123}
	wide := ns.Append(nil)
	if want := ucttest.Unhex(t, "23 01 00 f0 00 00 00 00"); !bytes.Equal(wide, want) {
		t.Errorf("Append = % x, want % x", wide, want)
	}
	// 1.22 and this library read the first four bytes and ignore the others.
	for _, b := range [][]byte{wide, wide[:4], ucttest.Unhex(t, "23 01 00 f0 ff ff ff ff")} {
		if got, err := ParseNamespace(b); err != nil || got != ns {
			t.Errorf("ParseNamespace(% x) = %+v, %v", b, got, err)
		}
	}
	for n := range 12 {
		if n == 4 || n == 8 {
			continue
		}
		if _, err := ParseNamespace(make([]byte, n)); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("ParseNamespace of %d bytes: %v", n, err)
		}
	}
}

func FuzzParseDeviceAddr(f *testing.F) {
	f.Add(ucttest.Unhex(f, vector))
	f.Add(ucttest.Unhex(f, "09 11 89 74 af 6c 94 f8 23 01 00 f0"))
	f.Add(ucttest.Unhex(f, "09 11 89 74 af 6c 94 f8 23 01 00 f0 00 00 00 00"))
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		d, err := ParseDeviceAddr(b)
		if err != nil {
			if !errors.Is(err, ucs.ErrInvalidAddr) {
				t.Fatalf("error %v is no %v", err, ucs.ErrInvalidAddr)
			}
			return
		}
		packed := d.Append(nil)
		again, err := ParseDeviceAddr(packed)
		if err != nil || again != d || len(packed) != d.Len() {
			t.Fatalf("%+v packs to % x, that reads as %+v, %v", d, packed, again, err)
		}
		if err := d.ReachAddr(b); err != nil {
			t.Fatalf("an address does not reach itself: %v", err)
		}
	})
}
