package self

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func fixture(settings ...string) ucttest.Fixture {
	f := ucttest.Fixture{Component: component{}, Loopback: true, Config: new(config.Set)}
	for i := 0; i < len(settings); i += 2 {
		if err := f.Config.Modify(settings[i], settings[i+1]); err != nil {
			panic(err)
		}
	}
	return f
}

func TestConformance(t *testing.T) { ucttest.Run(t, fixture()) }

func TestConformanceSmall(t *testing.T) {
	f := fixture("SELF_SEG_SIZE", "64", "SELF_NUM_DEVICES", "2")
	f.Device = "memory1"
	ucttest.Run(t, f)
}

// TestAttributes compares the attributes with what C UCX 1.22 prints (ucx_info -d) and publishes in
// its addresses.
func TestAttributes(t *testing.T) {
	f := fixture()
	h := f.Open(t)
	want := uct.IfaceAttr{
		Resource: uct.Resource{Transport: "self", Device: "memory", Type: uct.DeviceSelf, SysDevice: -1},
		Flags:    0x11804000023b,
		AM:       uct.AMLimits{MaxShort: 8192, MaxBcopy: 8192, MaxIOV: uct.Unlimited, OptZcopyAlign: 1, AlignMTU: 1},
		Put: uct.RMALimits{
			MaxShort: min(4294967295, math.MaxInt), MaxBcopy: uct.Unlimited, MaxIOV: 1, OptZcopyAlign: 1, AlignMTU: 1,
		},
		Get:          uct.RMALimits{MaxBcopy: uct.Unlimited, MaxIOV: 1, OptZcopyAlign: 1, AlignMTU: 1},
		Atomic32:     uct.AtomicOps{Post: 0xf, Fetch: 0x3f},
		Atomic64:     uct.AtomicOps{Post: 0xf, Fetch: 0x3f},
		IfaceAddrLen: 8,
		MaxEndpoints: uct.Unlimited,
		NumPaths:     1,
		Perf: uct.Perf{
			Overhead: 10e-9, SendOverhead: 10e-9, RecvOverhead: 10e-9, BandwidthDedicated: 19360 * 1024 * 1024,
		},
	}
	if diff := cmp.Diff(&want, h.Iface.Attr()); diff != "" {
		t.Errorf("iface (-want +got):\n%s", diff)
	}
	md := h.Domain.Attr()
	if md.Flags != 0xa || md.RkeyPackedSize != 8 || md.Name != "self" || md.Component != "self" {
		t.Errorf("domain %+v", md)
	}
	if !cmp.Equal(md.RegTypes, []ucs.MemoryType{ucs.MemoryHost}) || !cmp.Equal(md.AccessTypes, md.RegTypes) {
		t.Errorf("domain registers %v, accesses %v", md.RegTypes, md.AccessTypes)
	}
	if got := (component{}).Flags(); got != uct.ComponentFlagRkeyPtr {
		t.Errorf("component flags %#x", got)
	}
}

func TestRegistered(t *testing.T) {
	for _, c := range uct.Components() {
		if c == (component{}) {
			return
		}
	}
	t.Error("the component is not registered")
}

func TestSettings(t *testing.T) {
	devices := func(s ...string) (names []string) {
		t.Helper()
		f := fixture(s...)
		md, err := f.Component.OpenMD("self", f.Config)
		if err != nil {
			t.Fatal(err)
		}
		list, err := md.Resources()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			names = append(names, r.Device)
		}
		return names
	}
	if got := devices(); !cmp.Equal(got, []string{"memory"}) {
		t.Errorf("devices %v", got)
	}
	if got := devices("SELF_NUM_DEVICES", "3"); !cmp.Equal(got, []string{"memory0", "memory1", "memory2"}) {
		t.Errorf("three devices: %v", got)
	}
	for _, n := range []string{"0", "-1", "65", "1000000000"} {
		_, err := component{}.OpenMD("self", fixture("SELF_NUM_DEVICES", n).Config)
		ucttest.WantStatus(t, n+" devices", err, ucs.ErrInvalidParam)
	}
	h := (&ucttest.Fixture{Component: component{}, Loopback: true}).Open(t)
	for _, n := range []string{"0", "63", "inf", "2g"} {
		_, err := h.Domain.OpenIface(h.Worker, uct.IfaceParams{Transport: "self", Device: "memory"},
			fixture("SELF_SEG_SIZE", n).Config)
		ucttest.WantStatus(t, "segments of "+n, err, ucs.ErrInvalidParam)
	}
	f := fixture("SELF_SEG_SIZE", "auto")
	if a := f.Open(t).Iface.Attr(); a.AM.MaxShort != 8192 || a.AM.MaxBcopy != 8192 {
		t.Errorf("segments of auto: %+v", a.AM)
	}
	f = fixture("SELF_SEG_SIZE", "1k", "SELF_MAX_NUM_EPS", "2")
	h = f.Open(t)
	if a := h.Iface.Attr(); a.AM.MaxShort != 1024 || a.AM.MaxBcopy != 1024 || a.MaxEndpoints != 2 {
		t.Errorf("segments of 1k, 2 endpoints: %+v, %d", a.AM, a.MaxEndpoints)
	}
	for range 3 { // more than the two of the setting, which is no limit
		h.Connect(t, h)
	}
}

// TestCloseInUse: closing an object that is in use is refused and changes nothing.
func TestCloseInUse(t *testing.T) {
	f := fixture()
	h := f.Open(t)
	ep := h.Connect(t, h)
	ucttest.WantStatus(t, "closing an iface with an endpoint", h.Iface.Close(), ucs.ErrBusy)
	if err := ep.AMShort(1, 0, nil, 0, nil); err != nil {
		t.Errorf("sending afterwards: %v", err)
	}
	ep.Close()
	ucttest.WantStatus(t, "closing a domain with an iface", h.Domain.Close(), ucs.ErrBusy)
	m, err := h.Domain.Register(make([]byte, 8), uct.AccessAll)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Iface.Close(); err != nil {
			t.Errorf("closing the iface: %v", err)
		}
	}
	ucttest.WantStatus(t, "closing a domain with a registration", h.Domain.Close(), ucs.ErrBusy)
	if err := h.Domain.Deregister(m); err != nil {
		t.Errorf("deregistering: %v", err)
	}
	ucttest.WantStatus(t, "deregistering twice", h.Domain.Deregister(m), ucs.ErrInvalidParam)
}

func TestRkeyPtr(t *testing.T) {
	f := fixture()
	h := f.Open(t)
	m := h.Expose(t, make([]byte, 64), uct.AccessAll)
	key := h.Key(t, m)
	b, err := h.Domain.RkeyPtr(key, m.Addr+8, 16)
	if err != nil || len(b) != 16 || &b[0] != &m.Bytes[8] {
		t.Errorf("pointer to 16 bytes: %d bytes, %v", len(b), err)
	}
	ro := h.Expose(t, make([]byte, 64), uct.AccessRemoteGet)
	for name, err := range map[string]error{
		"outside":   second(h.Domain.RkeyPtr(key, m.Addr+60, 8)),
		"negative":  second(h.Domain.RkeyPtr(key, m.Addr, -1)),
		"read only": second(h.Domain.RkeyPtr(key, ro.Addr, 8)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if c, err := h.Domain.UnpackRkey(nil); err != nil {
		t.Errorf("the key of C: %v", err)
	} else if _, err := h.Domain.RkeyPtr(c, m.Addr, 8); err == nil {
		t.Error("the key of C opens memory")
	}
	for _, packed := range [][]byte{{1}, make([]byte, 9)} {
		if _, err := h.Domain.UnpackRkey(packed); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("key of %d bytes: %v", len(packed), err)
		}
	}
	if _, err := h.Domain.AppendKey(nil, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("key of nothing: %v", err)
	}
}

// TestKeyBounds: a key gives access to the memory that it was packed for. It gives none to
// registered memory beside it, none after deregistration, and none in another domain.
func TestKeyBounds(t *testing.T) {
	f := fixture()
	h, elsewhere := f.Open(t), f.Open(t)
	ep := h.Connect(t, h).(*endpoint)
	all := make([]byte, 192)
	h.Expose(t, all, uct.AccessAll)
	mine, err := h.Domain.Register(all[64:128], uct.AccessAll)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := h.Domain.AppendKey(nil, mine)
	if err != nil {
		t.Fatal(err)
	}
	unpack := func(from *ucttest.Host, packed []byte) *uct.Rkey {
		key, err := from.Domain.UnpackRkey(packed)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	access := func(key *uct.Rkey, addr uint64) map[string]error {
		buf, result := make([]byte, 8), uint64(0)
		_, put := ep.PutBcopy(pad(buf), 8, addr, key)
		return map[string]error{
			"put short":    ep.PutShort(buf, addr, key),
			"put bcopy":    put,
			"get":          ep.GetBcopy(pad(buf), 8, addr, key, nil),
			"post":         ep.Atomic64Post(uct.AtomicAdd, 1, addr, key),
			"fetch":        ep.Atomic64Fetch(uct.AtomicAdd, 1, &result, addr, key, nil),
			"compare":      ep.AtomicCSwap64(1, 1, addr, key, &result, nil),
			"post of 4":    ep.Atomic32Post(uct.AtomicAdd, 1, addr, key),
			"compare of 4": ep.AtomicCSwap32(1, 1, addr, key, new(uint32), nil),
			"pointer":      second(h.Domain.RkeyPtr(key, addr, 8)),
		}
	}
	key, base := unpack(h, packed), mine.(*kit.Region).Addr()
	for what, err := range access(key, base+8) {
		if err != nil {
			t.Errorf("%s inside: %v", what, err)
		}
	}
	refused := func(where string, key *uct.Rkey, addr uint64) {
		for what, err := range access(key, addr) {
			if !errors.Is(err, ucs.ErrInvalidAddr) {
				t.Errorf("%s %s: %v", what, where, err)
			}
		}
	}
	refused("before", key, base-8)
	refused("behind", key, base+64)
	refused("by a made-up key", unpack(h, []byte{1, 2, 3, 4, 5, 6, 7, 8}), base)
	refused("by a key in another domain", unpack(elsewhere, packed), base)
	refused("without a key", nil, base)
	if err := h.Domain.Deregister(mine); err != nil {
		t.Fatal(err)
	}
	refused("when it is gone", key, base)
	refused("by a key that is unpacked then", unpack(h, packed), base)
}

// pad packs its bytes, and unpacks into them.
type pad []byte

func (p pad) Pack(dst []byte) int { return copy(dst, p) }
func (p pad) Unpack(src []byte)   { copy(p, src) }

func second(_ []byte, err error) error { return err }
