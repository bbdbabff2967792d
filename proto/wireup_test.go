package proto

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

func recodeWireup(b []byte) ([]byte, error) {
	m, err := ParseWireup(b)
	if err != nil {
		return nil, err
	}
	return m.Append(nil)
}

func TestWireupGolden(t *testing.T) {
	checkGolden(t, "wireup.txt", map[string]recode{"WIREUP": recodeWireup})
}

// TestWireupExchange checks a captured REQUEST and its REPLY.
func TestWireupExchange(t *testing.T) {
	g := readGolden(t, "wireup.txt")
	req, err := ParseWireup(g[0].bytes)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := ParseWireup(g[1].bytes)
	if err != nil {
		t.Fatal(err)
	}
	if req.Type != WireupRequest || req.DstEp != 0 || req.Address.NumIfaces() != 1 || req.Address.Devices[0].Ifaces[0].RscIndex != 0 {
		t.Errorf("request %+v", req)
	}
	if rep.Type != WireupReply || rep.DstEp != req.SrcEp || rep.SrcEp == 0 || len(rep.Address.Devices) != 0 || rep.Address.UUID == req.Address.UUID {
		t.Errorf("reply %+v", rep)
	}
}

func TestWireupLaneMaps(t *testing.T) {
	want := Wireup{
		Type: WireupLanesAddrRequest, ErrMode: ErrModeFailover, ConnSN: 3, SrcEp: 4, DstEp: 5,
		RequestedLanes: 6, ProvidedLanes: 7, Address: full(),
	}
	b, err := want.Append([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseWireup(b[1:])
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	for n := range b[1:] {
		if _, err := ParseWireup(b[1 : 1+n : 1+n]); err == nil {
			t.Fatalf("%d of %d bytes accepted", n, len(b)-1)
		}
	}
}

func TestWireupRefuses(t *testing.T) {
	g := readGolden(t, "wireup.txt")[0].bytes
	for name, at := range map[string]int{"type": 0, "error mode": 1} {
		b := bytes.Clone(g)
		b[at] = 9
		if _, err := ParseWireup(b); !errors.Is(err, ucs.ErrIO) {
			t.Errorf("unknown %s: %v", name, err)
		}
	}
	bad := Wireup{Address: WorkerAddress{Version: AddressV2 + 1}}
	if b, err := bad.Append([]byte("kept")); err == nil || string(b) != "kept" {
		t.Errorf("address that cannot be packed: %q, %v", b, err)
	}
}

func FuzzWireup(f *testing.F) {
	seed(f, "wireup.txt")
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		m, err := ParseWireup(b)
		if err != nil || m.Address.Version != AddressV1 {
			return
		}
		out, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseWireup(out)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, again); d != "" {
			t.Error(d)
		}
	})
}
