//go:build linux

package rc_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestAttributes checks that UCP publishes for an interface what C UCX publishes for rc_verbs on
// virtual Ethernet with packets of 4096 bytes (soft-RoCE, 1.13.1 and 1.22.0).
func TestAttributes(t *testing.T) {
	f := fixture(t, newRig(t, verbstest.Port{}))
	a := f.Open(t).Iface.Attr()
	const published = uct.IfaceAMBcopy | uct.IfacePending | uct.IfacePutShort | uct.IfacePutBcopy | uct.IfacePutZcopy |
		uct.IfaceGetShort | uct.IfaceGetBcopy | uct.IfaceGetZcopy | uct.IfaceConnectToIface | uct.IfaceCBSync | uct.IfaceCBAsync |
		uct.IfaceTagEagerBcopy | uct.IfaceTagRndvZcopy
	const want = uct.IfaceAMBcopy | uct.IfacePending | uct.IfacePutShort | uct.IfacePutBcopy | uct.IfacePutZcopy |
		uct.IfaceGetBcopy | uct.IfaceGetZcopy | uct.IfaceCBSync
	if a.Flags&published != want || a.Events&uct.EventRecv == 0 {
		t.Errorf("published flags %v, want %v; events %#x", a.Flags&published, want, a.Events)
	}
	if !a.Flags.Has(uct.IfaceConnectToEP | uct.IfaceEpCheck | uct.IfaceErrHandlePeerFail | uct.IfaceAMShort | uct.IfaceAMZcopy) {
		t.Errorf("flags %v", a.Flags)
	}
	p := &a.Perf
	for name, c := range map[string]struct {
		got  float64
		want uint32
	}{
		"overhead": {p.Overhead, 0x33a10fb0}, "bandwidth": {p.Bandwidth(1), 0x4e91cece}, "latency": {p.Latency.C, 0x35719787},
	} {
		if got := math.Float32bits(float32(c.got)); got != c.want {
			t.Errorf("%s is %v (%#x), want %#x", name, c.got, got, c.want)
		}
	}
	if p.Latency.M != 1e-9 || a.MaxEndpoints != 256 {
		t.Errorf("latency growth %v, %d endpoints", p.Latency.M, a.MaxEndpoints)
	}
	if a.AM.MaxBcopy != 8255 || a.AM.MaxZcopyHdr != 127 || a.AM.MaxIOV != 4 || a.Put.MaxIOV != 5 || a.Get.MinZcopy != 65 ||
		a.AM.MaxShort != a.Put.MaxShort-1 || a.EpAddrLen != 4 || a.IfaceAddrLen != 0 || a.DeviceAddrLen != 17 {
		t.Errorf("%+v", a)
	}
	// UCP needs all its atomics on one lane, or none; C UCX has none on this transport.
	if a.Atomic32 != (uct.AtomicOps{}) || a.Atomic64 != (uct.AtomicOps{Post: 1, Fetch: 1<<uct.AtomicAdd | 1<<uct.AtomicCSwap}) {
		t.Errorf("atomics %+v, %+v", a.Atomic32, a.Atomic64)
	}
}

// TestWithoutAtomics checks that an interface of a device without atomics announces none and
// refuses them.
func TestWithoutAtomics(t *testing.T) {
	f := fixture(t, rigtest.New(t, verbstest.Config{Limits: verbstest.Limits{NoAtomics: true}}))
	a, b := f.Pair(t)
	if at := a.Iface.Attr(); at.Flags.Has(uct.IfaceAtomicDevice) || at.Atomic64 != (uct.AtomicOps{}) || at.Atomic32 != (uct.AtomicOps{}) {
		t.Errorf("flags %v, atomics %+v, %+v", at.Flags, at.Atomic32, at.Atomic64)
	}
	ep, _ := a.ConnectPair(t, b)
	atomic := ep.(uct.Atomic)
	var c uct.Completion
	var old uint64
	for _, err := range []error{
		atomic.Atomic64Post(uct.AtomicAdd, 1, 8, &uct.Rkey{}),
		atomic.Atomic64Fetch(uct.AtomicAdd, 1, &old, 8, &uct.Rkey{}, &c),
		atomic.AtomicCSwap64(0, 1, 8, &uct.Rkey{}, &old, &c),
	} {
		if !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("posted: %v", err)
		}
	}
	ucttest.Run(t, f)
}

// TestConnectRefused checks that ConnectToEP refuses invalid addresses.
func TestConnectRefused(t *testing.T) {
	f := fixture(t, newRig(t, verbstest.Port{}))
	a, b := f.Pair(t)
	dev := b.Iface.DeviceAddress()
	back := b.NewEndpoint(t, uct.EndpointParams{})
	good := rigtest.Must(back.(uct.Paired).Address())(t)
	ep := a.NewEndpoint(t, uct.EndpointParams{})
	paired := ep.(uct.Paired)
	if _, err := a.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: dev}); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("an endpoint to an interface: %v", err)
	}
	for _, path := range []int{-1, 1, 1 << 30} {
		if _, err := a.Iface.NewEndpoint(uct.EndpointParams{PathIndex: path}); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("path %d: %v", path, err)
		}
	}
	for name, c := range map[string]struct {
		dev, iface, ep []byte
		want           ucs.Status
	}{
		"no device":            {nil, nil, good, ucs.ErrInvalidAddr},
		"a device cut off":     {dev[:16], nil, good, ucs.ErrInvalidAddr},
		"a longer device":      {append(bytes.Clone(dev), 0), nil, good, ucs.ErrInvalidAddr},
		"InfiniBand":           {[]byte{0, 1, 0}, nil, good, ucs.ErrUnreachable},
		"IPv6":                 {append([]byte{0x58, 0x20, 1}, make([]byte, 14)...), nil, good, ucs.ErrUnreachable},
		"RoCE v1":              {append([]byte{0x08}, dev[1:]...), nil, good, ucs.ErrUnreachable},
		"partition of others":  {append(append([]byte{dev[0] | 4}, dev[1:]...), 1, 0x80), nil, good, ucs.ErrUnreachable},
		"an interface":         {dev, []byte{1}, good, ucs.ErrInvalidAddr},
		"no endpoint":          {dev, nil, nil, ucs.ErrInvalidAddr},
		"endpoint 0":           {dev, nil, []byte{0, 0, 0, 0}, ucs.ErrInvalidAddr},
		"an endpoint cut off":  {dev, nil, good[:3], ucs.ErrInvalidAddr},
		"a longer endpoint":    {dev, nil, append(bytes.Clone(good), 1), ucs.ErrInvalidAddr},
		"a flag without bytes": {dev, nil, []byte{1, 0x24, 0, 0}, ucs.ErrInvalidAddr},
	} {
		if err := paired.ConnectToEP(c.dev, c.iface, c.ep); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for seed := range uint64(300) {
		garbage := ucttest.Pattern(int(seed)%32, seed)
		if err := a.Iface.Reachable(uct.ReachableParams{DeviceAddr: garbage}); err != nil && !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("%x: %v", garbage, err)
		}
	}
	// None of this has harmed the endpoint.
	if err := ep.AMShort(1, 2, nil, 0, nil); err != ucs.ErrNoResource {
		t.Errorf("a message before the endpoint is connected: %v", err)
	}
	if ep.(uct.Paired).IsConnectedTo(dev, nil, nil) {
		t.Error("leads somewhere before it is connected")
	}
	check(t, paired.ConnectToEP(dev, nil, good))
	check(t, back.(uct.Paired).ConnectToEP(a.Iface.DeviceAddress(), nil, rigtest.Must(paired.Address())(t)))
	if err := paired.ConnectToEP(dev, nil, good); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("connecting again: %v", err)
	}
	other := []byte{0, good[1] ^ 1, good[2], good[3]}
	l := ep.(uct.Paired)
	if !l.IsConnectedTo(dev, nil, nil) || !l.IsConnectedTo(dev, nil, good) || l.IsConnectedTo(dev, nil, other) || l.IsConnectedTo(dev, []byte{1}, nil) ||
		l.IsConnectedTo(nil, nil, nil) || l.IsConnectedTo(append([]byte{dev[0]}, bytes.Repeat([]byte{7}, 16)...), nil, nil) || l.IsConnectedTo(dev, nil, good[:2]) {
		t.Error("does not lead where it leads, or elsewhere")
	}
	got := b.Collect(t, 1)
	check(t, ep.AMShort(1, 2, nil, 0, nil))
	got.Wait(t, 1, a, b)
}

// TestMTU checks that a connection uses the smaller MTU of both ports.
func TestMTU(t *testing.T) {
	r := newRig(t, verbstest.Port{}, verbstest.Port{MTU: 3})
	f := fixture(t, r)
	a := f.Open(t)
	f.Domain, f.Device = "rxe1", "rxe1:1"
	b := f.Open(t)
	if len(b.Iface.DeviceAddress()) != 18 {
		t.Errorf("address %x", b.Iface.DeviceAddress())
	}
	ep, back := a.ConnectPair(t, b)
	atA, atB := a.Collect(t, 1), b.Collect(t, 1)
	for _, c := range []struct {
		from *ucttest.Host
		ep   uct.Endpoint
		got  *ucttest.Collector
	}{{a, ep, atB}, {b, back, atA}} {
		msg := ucttest.Pattern(5000, 1)
		if _, err := c.ep.AMBcopy(1, &ucttest.Packer{Data: msg}, 0, nil); err != nil {
			t.Fatal(err)
		}
		c.got.Wait(t, 1, a, b)
		ucttest.SameBytes(t, "message", c.got.Messages[0].Data, msg)
	}
}

// TestSourceInfo checks that the address of a source is that of the peer's port.
func TestSourceInfo(t *testing.T) {
	r := newRig(t, verbstest.Port{}, verbstest.Port{}, verbstest.Port{InfiniBand: true}, verbstest.Port{InfiniBand: true})
	for _, c := range []struct {
		devices [2]string
		addr    netip.AddrPort
		local   bool
	}{
		{[2]string{"rxe0", "rxe1"}, netip.MustParseAddrPort("10.9.0.1:0"), false},
		{[2]string{"rxe1", "rxe1"}, netip.MustParseAddrPort("10.9.0.3:0"), true},
		{[2]string{"rxe2", "rxe3"}, netip.AddrPort{}, false},
	} {
		f := fixture(t, r)
		f.Domain, f.Device = c.devices[0], c.devices[0]+":1"
		a := f.Open(t)
		f.Domain, f.Device = c.devices[1], c.devices[1]+":1"
		b := f.Open(t)
		ep, back := a.ConnectPair(t, b)
		var info uct.SourceInfo
		heard := false
		b.Handle(t, 1, func(src *uct.Source, _ []byte, _ *uct.AMDesc) error {
			heard = true
			if src != back.(uct.NetworkEndpoint).Source() {
				t.Error("the source is another one than the endpoint's")
			}
			info = src.Owner.(uct.Connection).SourceInfo()
			return nil
		})
		check(t, ep.AMShort(1, 2, nil, 0, nil))
		ucttest.Until(t, "the message", func() bool { return heard }, a, b)
		if info.Addr != c.addr || info.Local != c.local || info.User.Known {
			t.Errorf("%v: %+v", c.devices, info)
		}
		back.Close()
		if back.(uct.NetworkEndpoint).Source() != nil {
			t.Error("a closed endpoint has a source")
		}
	}
}

// number returns the number of an endpoint's queue pair.
func number(t testing.TB, ep uct.Endpoint) uint32 {
	t.Helper()
	return binary.LittleEndian.Uint32(rigtest.Must(ep.(uct.Paired).Address())(t)) >> 8
}

// TestNumbersAgain checks that no endpoint gets the queue pair number of an ended endpoint for
// which messages may still arrive.
func TestNumbersAgain(t *testing.T) {
	r := newRig(t, verbstest.Port{})
	f := fixture(t, r)
	h := f.Open(t)
	first := number(t, h.NewEndpoint(t, uct.EndpointParams{}))
	rc.Haunt(h.Iface, first+1, first+2, first+4)
	objects := r.Devices()[0].Objects()
	if n := number(t, h.NewEndpoint(t, uct.EndpointParams{})); n != first+3 {
		t.Errorf("number %#x after %#x", n, first)
	}
	if n := r.Devices()[0].Objects() - objects; n != 1 {
		t.Errorf("%d objects more", n)
	}
	ucttest.Settle(h)
	if n := rc.Limbo(h.Iface); n != 0 {
		t.Errorf("%d numbers are taken for ever", n)
	}
}

// TestNoNeighbor checks that ConnectToEP returns the error if the network does not know the peer,
// and that a second attempt can succeed.
func TestNoNeighbor(t *testing.T) {
	r := newRig(t, verbstest.Port{}, verbstest.Port{})
	f := fixture(t, r)
	f.Domain = "rxe0"
	a := f.Open(t)
	f.Domain = "rxe1"
	b := f.Open(t)
	ep, back := a.NewEndpoint(t, uct.EndpointParams{}), b.NewEndpoint(t, uct.EndpointParams{})
	addr := rigtest.Must(back.(uct.Paired).Address())(t)
	r.Devices()[0].SetResolve(func(_, _ [16]byte) syscall.Errno { return syscall.ETIMEDOUT })
	if err := ep.(uct.Paired).ConnectToEP(b.Iface.DeviceAddress(), nil, addr); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("connected: %v", err)
	}
	if err := ep.AMShort(1, 2, nil, 0, nil); err != ucs.ErrNoResource {
		t.Error(err)
	}
	r.Devices()[0].SetResolve(nil)
	check(t, ep.(uct.Paired).ConnectToEP(b.Iface.DeviceAddress(), nil, addr))
	check(t, ep.AMShort(1, 2, nil, 0, nil))
}

// TestReadsAtOnce checks that a connection has no more reads and atomics in flight than the device,
// the settings, and the default allow. Peers do not say how many they serve.
func TestReadsAtOnce(t *testing.T) {
	for _, c := range []struct {
		device        int
		set           string
		asks, answers uint8
	}{
		{128, "auto", 16, 128},
		{8, "auto", 8, 8},
		{128, "4", 4, 4},
		{128, "64", 64, 64},
	} {
		r := rigtest.New(t, verbstest.Config{Limits: verbstest.Limits{RdAtomic: c.device}})
		f := fixture(t, r, "RC_VERBS_MAX_RD_ATOMIC", c.set)
		a, b := f.Pair(t)
		ab, ba := a.ConnectPair(t, b)
		for _, ep := range []any{ab, ba} {
			if asks, answers := rc.ReadsAtOnce(t, ep); asks != c.asks || answers != c.answers {
				t.Errorf("a device for %d, %s set: %d are asked for, %d answered", c.device, c.set, asks, answers)
			}
		}
	}
}
