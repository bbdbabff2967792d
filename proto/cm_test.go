package proto

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

func recodeCM(b []byte) ([]byte, error) {
	d, err := ParseCMData(b, nil)
	if err != nil {
		return nil, err
	}
	return d.Append(nil)
}

func TestCMGolden(t *testing.T) {
	checkGolden(t, "cm.txt", map[string]recode{"client": recodeCM, "server": recodeCM})
	for _, g := range readGolden(t, "cm.txt") {
		d, err := ParseCMData(g.bytes, nil)
		if err != nil {
			t.Fatal(err)
		}
		// Only 1.22.0 packs resource indices, and only for all devices.
		want := strings.Contains(g.origin, "1.22.0") && !strings.Contains(g.origin, "ALL_DEVICES=n")
		if d.RscIndex != want {
			t.Errorf("%s: resource indices %v, want %v", g.origin, d.RscIndex, want)
		}
		if peer := strings.Contains(g.origin, "MODE_PEER"); (d.ErrMode == ErrModePeer) != peer {
			t.Errorf("%s: error mode %d", g.origin, d.ErrMode)
		}
		if d.Address.ClientID != 0 && d.Address.ClientID != 0x1111222233334444 {
			t.Errorf("%s: client id %#x", g.origin, d.Address.ClientID)
		}
		devs := d.Address.Devices
		if len(devs) != 1 || len(devs[0].Addr) != 0 || len(devs[0].Ifaces) != 1 || len(devs[0].Ifaces[0].EpAddrs) != 1 {
			t.Fatalf("%s: %+v", g.origin, d)
		}
		if ep := devs[0].Ifaces[0].EpAddrs[0]; ep.Lane != 1 || len(ep.Addr) != 10 {
			t.Errorf("%s: endpoint address %+v", g.origin, ep)
		}
	}
}

func TestCMRoundTrip(t *testing.T) {
	for _, version := range []CMVersion{CMDataV1, CMDataV2} {
		for _, mode := range []ErrMode{ErrModeNone, ErrModePeer, ErrModeFailover} {
			for _, rsc := range []bool{false, true} {
				want := CMData{Version: version, EpID: 5, ErrMode: mode, RscIndex: rsc, Address: full()}
				want.Address.Flags &^= AddressHasName | AddressHasUUID
				want.Address.Name, want.Address.UUID = "", 0
				want.Address.Devices[0].Ifaces[0].EpAddrs[1].Addr = []byte("ep2")
				if !rsc {
					eachIface(&want.Address, func(f *AddressIface) { f.RscIndex = NullResource })
				}
				b, err := want.Append([]byte("x"))
				if err != nil {
					t.Fatal(err)
				}
				got, err := ParseCMData(b[1:], nil)
				if err != nil {
					t.Fatalf("version %d, mode %d, indices %v: %v", version, mode, rsc, err)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("-want +got\n%s", d)
				}
			}
		}
	}
}

func TestCMRefuses(t *testing.T) {
	for _, g := range readGolden(t, "cm.txt") {
		for n := range g.bytes {
			if _, err := ParseCMData(g.bytes[:n:n], nil); !errors.Is(err, ucs.ErrInvalidAddr) {
				t.Fatalf("%s: %d of %d bytes: %v", g.origin, n, len(g.bytes), err)
			}
		}
		if _, err := ParseCMData(append(g.bytes, 0), nil); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("%s: a byte more: %v", g.origin, err)
		}
	}
	v1 := readGolden(t, "cm.txt", "client")[0].bytes
	for name, edit := range map[string]func(b []byte){
		"version 3":      func(b []byte) { b[8] = 2 << 5 },
		"address mode 1": func(b []byte) { b[9] = 1 },
		"error mode 3":   func(b []byte) { b[8] = 3 },
	} {
		b := append([]byte{}, v1...)
		edit(b)
		if _, err := ParseCMData(b, nil); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := CMData{Address: WorkerAddress{Version: AddressV2 + 1}}
	if b, err := bad.Append([]byte("kept")); err == nil || string(b) != "kept" {
		t.Errorf("address that cannot be packed: %q, %v", b, err)
	}
}

// TestCMDataKnown: the transports that the reader knows decide between two forms that are both valid.
func TestCMDataKnown(t *testing.T) {
	const transport TransportID = 0x1234
	known := func(id TransportID) bool { return id == transport }
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for k := range b {
			b[k] = byte(r.Uint32())
		}
		return b
	}
	doubtful := 0
	for range 60_000 {
		d := CMData{Version: CMVersion(r.IntN(2)), EpID: 5, RscIndex: r.IntN(2) == 0}
		lane := uint8(1)
		for range 1 + r.IntN(3) {
			dev := AddressDevice{NumPaths: 1, SysDev: SysDevUnknown, Addr: random(r.IntN(20))}
			for range 1 + r.IntN(2) {
				f := AddressIface{Transport: transport, Attr: IfaceAttr{Bandwidth: 1e9, Latency: 1e-6, Overhead: 1e-7}, Addr: random(r.IntN(4))}
				for range 1 + r.IntN(2) {
					f.EpAddrs = append(f.EpAddrs, AddressEp{lane, random(4 + r.IntN(20))})
					lane++
				}
				dev.Ifaces = append(dev.Ifaces, f)
			}
			d.Address.Devices = append(d.Address.Devices, dev)
		}
		b, err := d.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if guess, err := ParseCMData(b, nil); err != nil || guess.RscIndex != d.RscIndex {
			doubtful++
		}
		if got, err := ParseCMData(b, known); err != nil || got.RscIndex != d.RscIndex {
			t.Fatalf("% x: %v, resource indices %v", b, err, got.RscIndex)
		}
	}
	if doubtful == 0 {
		t.Error("no data is valid in both forms: the test tests nothing")
	}
}

func FuzzCMData(f *testing.F) {
	seed(f, "cm.txt")
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		d, err := ParseCMData(b, nil)
		if err != nil || d.Address.Version != AddressV1 {
			return
		}
		if _, err := d.Append(nil); err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
	})
}
