package proto

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

func mustAddress(t *testing.T, b []byte, form AddressForm) WorkerAddress {
	t.Helper()
	a, n, err := ParseAddress(b, form)
	if err != nil {
		t.Fatalf("%x: %v", b, err)
	}
	if n != len(b) {
		t.Fatalf("%x: %d of %d bytes read", b, n, len(b))
	}
	return a
}

// TestAddressGolden reads every captured address to its end, v1 and v2, and
// reproduces it.
func TestAddressGolden(t *testing.T) {
	counts := map[AddressVersion]int{}
	for _, g := range readGolden(t, "addresses.txt") {
		a := mustAddress(t, g.bytes, FormWorker)
		counts[a.Version]++
		if strings.Contains(g.origin, "1.22.0") && len(a.Devices) > 0 {
			if a.Release != 22 {
				t.Errorf("%s: %s: release %d, want 22", g.origin, g.name, a.Release)
			}
		} else if a.Version == AddressV1 && a.Release != 0 {
			t.Errorf("%s: %s: release %d, want none", g.origin, g.name, a.Release)
		}
		out, err := a.Append([]byte("x"), FormWorker)
		if err != nil || !bytes.Equal(out[1:], g.bytes) {
			t.Errorf("%s: %s: %v\n got %x\nwant %x", g.origin, g.name, err, out, g.bytes)
		}
	}
	if counts[AddressV1] < 20 || counts[AddressV2] < 20 {
		t.Errorf("too few addresses: %v", counts)
	}
}

// TestUnifiedRefused: addresses of peers with UCX_UNIFIED_MODE=y are refused, not taken for others.
func TestUnifiedRefused(t *testing.T) {
	for _, g := range readGolden(t, "unified.txt") {
		if a, _, err := ParseAddress(g.bytes, FormWorker); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("%s: %v, %v", g.origin, &a, err)
		}
	}
}

func TestAddressFields(t *testing.T) {
	const origin = "release 1.22.0 UCX_TLS=tcp UCX_NET_DEVICES=eth0 UCX_ADDRESS_VERSION="
	const caps = CapAMBcopy | CapPending | CapPutZcopy | CapConnectToIface | CapCBSync | CapEventRecv
	const flags = PeerConnectToIface | PeerAMSync | PeerPut | PeerEventRecv
	for _, tc := range []struct {
		version AddressVersion
		port    []byte
		attr    IfaceAttr
	}{
		{AddressV1, []byte{0x92, 0x31}, IfaceAttr{
			Overhead:  float64(float32(50e-6)),
			Bandwidth: float64(math.Float32frombits(0x4b346397)), // 11.3 MiB/s
			Latency:   float64(math.Float32frombits(0x3737e0d7)), // 10.96 us
			Caps:      caps, Flags: flags,
		}},
		{AddressV2, []byte{0xa1, 0xcb}, IfaceAttr{
			Overhead:  2048 / nsecPerSec, // 50 us as fp8 rounds it
			Bandwidth: 512 << 20,
			Latency:   10752 / nsecPerSec,
			SegSize:   8192,
			Flags:     flags,
		}},
	} {
		for _, g := range readGolden(t, "addresses.txt", "worker_address") {
			if g.origin != origin+tc.version.String() {
				continue
			}
			at := 1 + int(tc.version) // after the header, which is 20 or 61 02
			want := WorkerAddress{
				Version: tc.version, Flags: AddressHasUUID, UUID: le.Uint64(g.bytes[at:]), Release: 22,
				Devices: []AddressDevice{{
					NumPaths: 1, SysDev: SysDevUnknown, Addr: []byte{0, 2, 192, 0, 2, 2},
					Ifaces: []AddressIface{{Transport: TransportTCP, RscIndex: NullResource, Addr: tc.port, Attr: tc.attr}},
				}},
			}
			if d := cmp.Diff(want, mustAddress(t, g.bytes, FormWorker)); d != "" {
				t.Errorf("%v: -want +got\n%s", tc.version, d)
			}
		}
	}
}

// TestAddressMDCaps checks the two bits above the MD index that mean a
// capability or a part of the index, depending on the release.
func TestAddressMDCaps(t *testing.T) {
	g := readGolden(t, "addresses.txt", "worker_address")
	find := func(origin string) WorkerAddress {
		for _, e := range g {
			if e.origin == origin {
				return mustAddress(t, e.bytes, FormWorker)
			}
		}
		t.Fatalf("no capture %q", origin)
		return WorkerAddress{}
	}
	old := find("release 1.13.1 UCX_TLS=posix,cma UCX_NET_DEVICES=all UCX_ADDRESS_VERSION=v1")
	if d := old.Devices; len(d) != 2 || d[0].MD != 0 || d[0].MDCaps != 0x40 || d[1].MD != 1 || d[1].MDCaps != 0x20 {
		t.Errorf("1.13.1: %+v", d)
	}
	b, err := (&WorkerAddress{Release: 19, Devices: []AddressDevice{{MD: 100, SysDev: SysDevUnknown}}}).Append(nil, FormWorker)
	if err != nil {
		t.Fatal(err)
	}
	b = append(append([]byte{}, b[0]), append(make([]byte, 8), b[1:]...)...) // FormWorker reads a uuid
	if a := mustAddress(t, b, FormWorker); a.Devices[0].MD != 100 || a.Devices[0].MDCaps != 0 || a.Release != 19 {
		t.Errorf("1.19: %+v", a)
	}
}

// full is an address that uses every part of the format.
func full() WorkerAddress {
	iface := func(rsc uint8, eps ...AddressEp) AddressIface {
		return AddressIface{
			Transport: TransportTCP, RscIndex: rsc, Addr: []byte{1, 2}, EpAddrs: eps,
			Attr: IfaceAttr{Overhead: 0.5, Bandwidth: 1, Latency: 0.25, Priority: 9, Caps: CapAMBcopy | CapCBSync, Flags: PeerAMSync},
		}
	}
	return WorkerAddress{
		Flags: AddressHasName | AddressHasUUID | AddressHasClientID | AddressAMOnly,
		UUID:  1, ClientID: 2, Name: "host:1", Release: 22,
		Devices: []AddressDevice{
			{MD: 70, NumPaths: 3, SysDev: 4, Addr: []byte("dev"), Ifaces: []AddressIface{
				iface(0, AddressEp{Lane: 1, Addr: []byte("ep1")}, AddressEp{Lane: 63, Addr: []byte{}}),
				iface(1),
			}},
			{MD: 1, NumPaths: 1, SysDev: SysDevUnknown, Addr: []byte{}},
			{MD: 2, NumPaths: 1, SysDev: SysDevUnknown, Addr: []byte{}, Ifaces: []AddressIface{iface(2)}},
		},
	}
}

// toV2 changes an address to version 2, which has other attributes.
func toV2(a *WorkerAddress) {
	a.Version = AddressV2
	eachIface(a, func(f *AddressIface) {
		f.Attr = IfaceAttr{Overhead: 2048 / nsecPerSec, Bandwidth: 512 << 20, Latency: 10752 / nsecPerSec, Priority: 9,
			SegSize: 8192, Flags: PeerAMSync | PeerAtomic64}
	})
}

func TestAddressRoundTrip(t *testing.T) {
	for _, tc := range []struct {
		name string
		form AddressForm
		edit func(a *WorkerAddress)
	}{
		{"everything", FormWireup, func(*WorkerAddress) {}},
		{"no resource index", FormWorker, func(a *WorkerAddress) { eachIface(a, func(f *AddressIface) { f.RscIndex = NullResource }) }},
		{"connection data", FormCMRsc, func(a *WorkerAddress) { a.Flags &^= AddressHasUUID; a.UUID = 0; a.Name = "" }},
		{"no release", FormWireup, func(a *WorkerAddress) { a.Release = 0; a.Devices[0].MD = 31; a.Devices[0].MDCaps = 0x60 }},
		{"release without devices", FormWireup, func(a *WorkerAddress) { a.Devices = nil }},
		{"nothing", FormWireup, func(a *WorkerAddress) { *a = WorkerAddress{Flags: AddressHasUUID} }},
		{"everything in v2", FormWireup, toV2},
		{"what does not fit beside flags in v2", FormWireup, func(a *WorkerAddress) {
			toV2(a)
			a.Devices[0].MD, a.Devices[0].Addr, a.Devices[0].Ifaces[0].Addr = 255, make([]byte, 255), make([]byte, 63)
			a.Devices[1].MD, a.Devices[1].Addr = 127, make([]byte, 31)
		}},
		{"nothing in v2", FormWireup, func(a *WorkerAddress) { *a = WorkerAddress{Version: AddressV2, Flags: AddressHasUUID} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := full()
			tc.edit(&want)
			b, err := want.Append(nil, tc.form)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, mustAddress(t, b, tc.form)); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
			for n := range b {
				if _, _, err := ParseAddress(b[:n:n], tc.form); !errors.Is(err, ucs.ErrInvalidAddr) {
					t.Fatalf("%d of %d bytes: %v", n, len(b), err)
				}
			}
		})
	}
}

func eachIface(a *WorkerAddress, fn func(*AddressIface)) {
	a.Ifaces(func(_ int, _ *AddressDevice, f *AddressIface) bool { fn(f); return true })
}

// TestAddressLast checks where the end mark is: at the last device, or at the pseudo device that
// announces a release.
func TestAddressLast(t *testing.T) {
	dev := AddressDevice{SysDev: SysDevUnknown, Ifaces: []AddressIface{{Transport: TransportTCP, Attr: IfaceAttr{Bandwidth: 1}}}}
	a := WorkerAddress{Devices: []AddressDevice{dev}}
	b, err := a.Append(nil, FormCM)
	if err != nil || b[2] != 0x80 {
		t.Errorf("no release: %x, %v", b, err)
	}
	a.Release = 22
	b, err = a.Append(nil, FormCM)
	if err != nil || b[2] != 0 || !bytes.HasSuffix(b, []byte{0x86, 0x80}) {
		t.Errorf("release: %x, %v", b, err)
	}
}

func TestAddressAppendRefuses(t *testing.T) {
	for name, edit := range map[string]func(a *WorkerAddress){
		"version 3":              func(a *WorkerAddress) { a.Version = AddressV2 + 1 },
		"long name":              func(a *WorkerAddress) { a.Name = strings.Repeat("n", 256) },
		"long device address":    func(a *WorkerAddress) { a.Devices[0].Addr = make([]byte, 32) },
		"long interface address": func(a *WorkerAddress) { a.Devices[0].Ifaces[0].Addr = make([]byte, 64) },
		"long endpoint address":  func(a *WorkerAddress) { a.Devices[0].Ifaces[0].EpAddrs[0].Addr = make([]byte, 256) },
		"high lane":              func(a *WorkerAddress) { a.Devices[0].Ifaces[0].EpAddrs[0].Lane = 64 },
		"many endpoints":         func(a *WorkerAddress) { a.Devices[0].Ifaces[0].EpAddrs = make([]AddressEp, 65) },
		"many interfaces":        func(a *WorkerAddress) { a.Devices[0].Ifaces = make([]AddressIface, 129) },
		"high md, no release":    func(a *WorkerAddress) { a.Release = 0 },
		"high md":                func(a *WorkerAddress) { a.Devices[0].MD = 128 },
	} {
		a := full()
		edit(&a)
		if b, err := a.Append([]byte("kept"), FormWireup); err == nil || string(b) != "kept" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for name, edit := range map[string]func(a *WorkerAddress){
		"long device address":    func(a *WorkerAddress) { a.Devices[0].Addr = make([]byte, 256) },
		"long interface address": func(a *WorkerAddress) { a.Devices[0].Ifaces[0].Addr = make([]byte, 256) },
		"high lane":              func(a *WorkerAddress) { a.Devices[0].Ifaces[0].EpAddrs[0].Lane = 64 },
		"many endpoints":         func(a *WorkerAddress) { a.Devices[0].Ifaces[0].EpAddrs = make([]AddressEp, 65) },
		"looks like no device":   func(a *WorkerAddress) { a.Devices[0].MD, a.Devices[0].Ifaces = 127, nil },
	} {
		a := full()
		toV2(&a)
		edit(&a)
		if b, err := a.Append([]byte("kept"), FormWireup); err == nil || string(b) != "kept" {
			t.Errorf("%s in v2: %q, %v", name, b, err)
		}
	}
	a := full()
	toV2(&a)
	if b, err := a.Append([]byte("kept"), FormCMBoth); !errors.Is(err, ucs.ErrUnsupported) || string(b) != "kept" {
		t.Errorf("v2 for all releases: %q, %v", b, err)
	}
}

func TestAddressRefuses(t *testing.T) {
	head := func(f func(a *WorkerAddress)) []byte {
		a := WorkerAddress{Devices: []AddressDevice{{SysDev: SysDevUnknown, Ifaces: []AddressIface{{Attr: IfaceAttr{Bandwidth: 1}}}}}}
		f(&a)
		b, err := a.Append(nil, FormCM)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	attr := func(f func(a *IfaceAttr)) []byte {
		return head(func(a *WorkerAddress) { f(&a.Devices[0].Ifaces[0].Attr) })
	}
	manyIfaces := []byte{0, 0, 0x80}
	for range 200 {
		manyIfaces = append(manyIfaces, attr(func(*IfaceAttr) {})[3:]...)
		manyIfaces[len(manyIfaces)-1] = 0
	}
	manyEps := append(attr(func(*IfaceAttr) {}), bytes.Repeat([]byte{0, 0}, 200)...)
	manyEps[3+18] |= flagHasEp
	for name, b := range map[string][]byte{
		"version 3":          {3},
		"bandwidth zero":     attr(func(a *IfaceAttr) { a.Bandwidth = 0 }),
		"bandwidth negative": attr(func(a *IfaceAttr) { a.Bandwidth = -1 }),
		"bandwidth NaN":      attr(func(a *IfaceAttr) { a.Bandwidth = math.NaN() }),
		"bandwidth infinite": attr(func(a *IfaceAttr) { a.Bandwidth = math.Inf(1) }),
		"overhead NaN":       attr(func(a *IfaceAttr) { a.Overhead = math.NaN() }),
		"latency negative":   attr(func(a *IfaceAttr) { a.Latency = -1 }),
		"many devices":       append([]byte{0}, bytes.Repeat([]byte{0x80, 0}, 200)...),
		"many interfaces":    manyIfaces,
		"many endpoints":     manyEps,
		"fp8 NaN":            {1, 0, 0, 0x80, 0xCF, 0x19, 0x0F, 1, 1, 0, 0, 0, 0, 0, 0x80},
	} {
		if _, _, err := ParseAddress(b, FormCM); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("%s: %v", name, err)
		} else if name != "version 3" && errors.Is(err, errAddressEnd) {
			t.Errorf("%s: refused as truncated", name)
		}
	}
}

// TestAddressOldUUID checks that headers of releases before 1.12, which have no flag for the uuid,
// are parsed.
func TestAddressOldUUID(t *testing.T) {
	b := append(le.AppendUint64([]byte{0}, 5), 0xFF)
	if a := mustAddress(t, b, FormWorker); a.UUID != 5 || a.Flags != AddressHasUUID {
		t.Errorf("%+v", a)
	}
	if a := mustAddress(t, []byte{0, 0xFF}, FormCM); a.Flags != 0 {
		t.Errorf("connection data: %+v", a)
	}
}

// TestAddressV2Extended checks that values that do not fit into the bits beside their flags are
// parsed.
func TestAddressV2Extended(t *testing.T) {
	attr := []byte{0x0C, 1, 0x5A, 0, 0x80, 0, 0x8B, 0}
	b := append([]byte{0x61, 0x02}, make([]byte, 8)...)
	b = append(b, 0x7F, 200, 0x1F|0x80, 40)
	b = append(b, make([]byte, 40)...)
	b = append(append(append(b, 0xCF, 0x19), attr...), 0x3F|0x80, 70)
	b = append(b, make([]byte, 70)...)
	d := mustAddress(t, b, FormWorker).Devices
	if len(d) != 1 || d[0].MD != 200 || len(d[0].Addr) != 40 || len(d[0].Ifaces[0].Addr) != 70 {
		t.Errorf("%+v", d)
	}
}

func TestReleaseFromWire(t *testing.T) {
	for nibble, want := range map[uint8]int{0: 16, 2: 18, 6: 22, 13: 29, 14: 14, 15: 15} {
		if got := releaseFromWire(nibble); got != want {
			t.Errorf("%d: %d, want %d", nibble, got, want)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, g := range readGolden(f, "addresses.txt") {
		f.Add(g.bytes, uint8(FormWorker))
		f.Add(g.bytes[:len(g.bytes)/2], uint8(FormWorker))
	}
	for _, g := range readGolden(f, "wireup.txt") {
		f.Add(g.bytes[wireupHeaderSize:], uint8(FormWireup))
	}
	a := full()
	b, err := a.Append(nil, FormWireup)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, uint8(FormWireup))
	for _, kind := range []TokenKind{TokenSecret, TokenKey} {
		a.Token = token(kind)
		if b, err = a.Append(nil, FormWorker); err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint8(FormWorker))
	}
	fuzztest.Run(f, func(t *testing.T, b []byte, form uint8) {
		form &^= uint8(FormCMBoth) // a form that is only packed, never parsed
		a, n, err := ParseAddress(b, AddressForm(form))
		if err != nil {
			return
		}
		if n > len(b) {
			t.Fatalf("%d of %d bytes read", n, len(b))
		}
		_ = a.String()
		out, err := a.Append(nil, AddressForm(form))
		if err != nil {
			t.Fatalf("%+v: %v", a, err)
		}
		again, _, err := ParseAddress(out, AddressForm(form))
		if err != nil {
			t.Fatal(err)
		}
		if a.Version == AddressV2 { // some numbers are rounded when they are packed
			if out2, err := again.Append(nil, AddressForm(form)); err != nil || !bytes.Equal(out, out2) {
				t.Errorf("%v\n   %x\nis %x", err, out, out2)
			}
		} else if d := cmp.Diff(a, again); d != "" {
			t.Error(d)
		}
	})
}
