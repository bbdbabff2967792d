package proto

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
)

var bothAttr = IfaceAttr{Overhead: 0.5, Bandwidth: 1, Latency: 0.25, Priority: 9, Caps: CapAMBcopy | CapCBSync, Flags: PeerAMSync}

// both returns an address of two interfaces, for a client that does not know which release the
// server has.
func both() WorkerAddress {
	return WorkerAddress{Devices: []AddressDevice{{
		MD: 3, SysDev: SysDevUnknown, NumPaths: 1,
		Ifaces: []AddressIface{
			{Transport: 0x1234, RscIndex: 7, Attr: bothAttr, Addr: []byte("AB"), EpAddrs: []AddressEp{{Lane: 1, Addr: []byte("end1")}, {Lane: 2, Addr: []byte("end2")}}},
			{Transport: 0x5678, RscIndex: 9, Attr: bothAttr, EpAddrs: []AddressEp{{Lane: 3, Addr: []byte("end3")}}},
		},
	}}}
}

// endsOf returns the endpoint addresses in an address, by transport.
func endsOf(a *WorkerAddress) map[TransportID][]AddressEp {
	m := make(map[TransportID][]AddressEp)
	a.Ifaces(func(_ int, _ *AddressDevice, f *AddressIface) bool {
		m[f.Transport] = f.EpAddrs
		return true
	})
	return m
}

// bothBytes are the bytes of that address in form FormCMBoth.
const bothBytes = "00" + // no flags
	"0380" + // memory domain 3; the last device, without an address of its own
	// 2 bytes of address, or 1 more before them.
	"3412" + "ATTR" + "4342" + "4142" + "04656e643101" + "04656e643282" +
	"7856" + "ATTR" + "c1c0" + "04656e643383"

// TestCMBothBytes checks the bytes of FormCMBoth: where a resource index would be, there is the
// length of the interface address, and the length before that counts one byte more.
func TestCMBothBytes(t *testing.T) {
	a := both()
	got, err := a.Append(nil, FormCMBoth)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(bothBytes, "ATTR", hex.EncodeToString(bothAttr.appendV1(nil)))
	if diff := cmp.Diff(want, hex.EncodeToString(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCMBothReadings checks that releases that expect resource indices, and those that do not, read
// the same transports with the same endpoint addresses.
func TestCMBothReadings(t *testing.T) {
	a := both()
	b, err := a.Append(nil, FormCMBoth)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []AddressForm{FormCM, FormCMRsc} {
		got, n, err := ParseAddress(b, form)
		if err != nil || n != len(b) {
			t.Fatalf("form %d: %d of %d bytes are read: %v", form, n, len(b), err)
		}
		if diff := cmp.Diff(endsOf(&a), endsOf(&got)); diff != "" {
			t.Errorf("form %d (-want +got):\n%s", form, diff)
		}
		if len(got.Devices) != 1 || got.Devices[0].MD != a.Devices[0].MD {
			t.Errorf("form %d: devices %+v", form, got.Devices)
		}
	}
	got, _, _ := ParseAddress(b, FormCMRsc)
	if diff := cmp.Diff(a.Devices[0].Ifaces[0].Addr, got.Devices[0].Ifaces[0].Addr); diff != "" {
		t.Errorf("an interface address, by who expects indices (-want +got):\n%s", diff)
	}
}

// TestCMBothData checks that connection data in this form is parsed as data without resource
// indices, in both versions. The answer then has none either, and its reader recognizes that.
func TestCMBothData(t *testing.T) {
	for _, v := range []CMVersion{CMDataV1, CMDataV2} {
		want := CMData{Version: v, EpID: 0x1122334455667789, ErrMode: ErrModePeer, Both: true, Address: both()}
		b, err := want.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseCMData(b, nil)
		if err != nil {
			t.Fatalf("version %d: %v", v, err)
		}
		if got.RscIndex || got.Both || got.EpID != want.EpID || got.ErrMode != want.ErrMode || got.Version != v {
			t.Errorf("version %d: %+v", v, got)
		}
		if diff := cmp.Diff(endsOf(&want.Address), endsOf(&got.Address)); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", v, diff)
		}
	}
}

// TestCMBothRefuses checks that an interface address is refused if its length plus one does not
// fit.
func TestCMBothRefuses(t *testing.T) {
	a := both()
	for n, ok := range map[int]bool{0: true, 62: true, 63: false} {
		a.Devices[0].Ifaces[1].Addr = make([]byte, n)
		b, err := a.Append([]byte("x"), FormCMBoth)
		if ok != (err == nil) || !ok && (!errors.Is(err, ucs.ErrInvalidParam) || !slices.Equal(b, []byte("x"))) {
			t.Errorf("%d bytes: %q, %v", n, b, err)
		}
		if !ok {
			continue
		}
		for _, form := range []AddressForm{FormCM, FormCMRsc} {
			if got, read, err := ParseAddress(b[1:], form); err != nil || read != len(b)-1 || !cmp.Equal(endsOf(&a), endsOf(&got)) {
				t.Errorf("%d bytes, form %d: %d of %d bytes are read, %v", n, form, read, len(b)-1, err)
			}
		}
	}
}
