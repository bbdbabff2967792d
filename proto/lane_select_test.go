package proto

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// capturedAddress returns a captured worker address of a C process.
func capturedAddress(tb testing.TB, release, tls, devices, version string) *WorkerAddress {
	tb.Helper()
	want := fmt.Sprintf("release %s UCX_TLS=%s UCX_NET_DEVICES=%s UCX_ADDRESS_VERSION=%s", release, tls, devices, version)
	for _, g := range readGolden(tb, "addresses.txt", "worker_address") {
		if g.origin == want {
			a, _, err := ParseAddress(g.bytes, FormWorker)
			if err != nil {
				tb.Fatal(err)
			}
			return &a
		}
	}
	tb.Fatalf("no capture %q", want)
	return nil
}

// Attributes of transports as ucx_info -d of 1.22.0 prints them.
const (
	tcpFlags = uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfaceAMZcopy | uct.IfacePending | uct.IfacePutZcopy | uct.IfaceCBSync |
		uct.IfaceConnectToIface | uct.IfaceConnectToEP | uct.IfaceErrHandlePeerFail | uct.IfaceEpCheck | uct.IfaceEpKeepalive
	posixFlags = uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfacePending | uct.IfacePutShort | uct.IfacePutBcopy | uct.IfaceGetBcopy |
		uct.IfaceCBSync | uct.IfaceConnectToIface | uct.IfaceEpCheck
	cmaFlags = uct.IfacePutZcopy | uct.IfaceGetZcopy | uct.IfacePending | uct.IfaceConnectToIface | uct.IfaceEpCheck
)

// anyAtomic is an interface with every atomic operation.
var anyAtomic = uct.AtomicOps{Post: 1<<uct.AtomicSwap - 1, Fetch: 1<<(uct.AtomicCSwap+1) - 1}

// mirror returns local interfaces like those of the process with this address.
func mirror(a *WorkerAddress) []LocalIface {
	var list []LocalIface
	for i := range a.Devices {
		d := &a.Devices[i]
		for _, f := range d.Ifaces {
			l := LocalIface{
				Transport: f.Transport, Device: i, MD: d.MD,
				Domain: uct.MDAttr{Flags: uct.MDFlagRegister, AccessTypes: []ucs.MemoryType{ucs.MemoryHost}},
				Attr: uct.IfaceAttr{
					Resource: uct.Resource{Transport: f.Transport.String(), Device: fmt.Sprint(i)},
					Events:   uct.EventSendComp | uct.EventRecv,
					AM:       uct.AMLimits{MaxBcopy: 8192},
					NumPaths: int(d.NumPaths),
					Perf: uct.Perf{
						Overhead: f.Attr.Overhead, BandwidthDedicated: f.Attr.Bandwidth,
						Latency: uct.Linear{C: f.Attr.Latency}, Priority: f.Attr.Priority,
					},
				},
			}
			switch f.Transport {
			case TransportTCP:
				l.Attr.Flags, l.Attr.MaxEndpoints = tcpFlags, 256
			case TransportPosix, TransportSysV:
				l.Attr.Flags, l.Attr.Atomic32, l.Attr.Atomic64 = posixFlags, anyAtomic, anyAtomic
				l.Domain.Flags = uct.MDFlagAlloc | uct.MDFlagNeedRkey | uct.MDFlagRkeyPtr
			case TransportCMA:
				l.Attr.Flags, l.Attr.AM.MaxBcopy = cmaFlags, 0
			}
			list = append(list, l)
		}
	}
	return list
}

// sameDevice returns a reachability check as on one host: interfaces with equal device addresses
// reach each other.
func sameDevice(a *WorkerAddress) func(int, *AddressDevice, *AddressIface) error {
	return func(local int, d *AddressDevice, _ *AddressIface) error {
		own := remoteList(a)[local].dev
		if !bytes.Equal(own.Addr, d.Addr) {
			return errors.New("another network")
		}
		return nil
	}
}

func laneInput(a *WorkerAddress, edit ...func(*LaneInput)) *LaneInput {
	in := &LaneInput{Features: FeatureTag, Local: mirror(a), Remote: a, Reachable: sameDevice(a)}
	for _, f := range edit {
		f(in)
	}
	return in
}

// uses prints a configuration: "0 tcp/1: rma_bw#0 am; 1 tcp/0: rma_bw#1 wireup".
func uses(c *LaneConfig) string {
	var s []string
	for i := range c.Lanes {
		name := c.Lanes[i].Name
		if c.Lanes[i].Local < 0 {
			name = "-"
		}
		s = append(s, fmt.Sprintf("%d %s: %s", i, name, c.uses(uint8(i))))
	}
	return strings.Join(s, "; ")
}

// TestSelectLanes compares with the lanes that ucx_info -e of 1.22.0 prints for the same transports
// and features.
func TestSelectLanes(t *testing.T) {
	all := FeatureTag | FeatureRMA | FeatureAtomic32 | FeatureAtomic64 | FeatureStream | FeatureAM
	features := func(f Features) func(*LaneInput) { return func(in *LaneInput) { in.Features = f } }
	errMode := func(in *LaneInput) { in.ErrMode, in.Keepalive = ErrModePeer, true }
	slow := func(in *LaneInput) { // compared with the other one
		in.Local[1].Attr.Perf.BandwidthDedicated, in.Remote.Devices[1].Ifaces[0].Attr.Bandwidth = 1<<34, 1<<34
	}
	for _, tc := range []struct {
		name     string
		tls, dev string
		edit     []func(*LaneInput)
		want     string
	}{
		{name: "one tcp device", tls: "tcp", dev: "lo", want: "0 tcp/0: rma_bw#0 am wireup"},
		{name: "one tcp device, all features", tls: "tcp", dev: "lo", edit: []func(*LaneInput){features(all)},
			want: "0 tcp/0: rma_bw#0 am wireup"},
		{name: "two tcp devices", tls: "tcp", dev: "all",
			want: "0 tcp/1: rma_bw#0 am; 1 tcp/0: rma_bw#1 wireup"},
		{name: "a slow device", tls: "tcp", dev: "all", edit: []func(*LaneInput){slow},
			want: "0 tcp/1: rma_bw#0 am wireup"},
		{name: "a slow device, toward older releases", tls: "tcp", dev: "all",
			edit: []func(*LaneInput){slow, func(in *LaneInput) {
				in.Limits = DefaultLaneLimits()
				in.Limits.Slow = true
			}},
			want: "0 tcp/1: rma_bw#0 am; 1 tcp/0: rma_bw#1 wireup"},
		{name: "a slower device, and memory that takes long to register with the other", tls: "tcp", dev: "all",
			edit: []func(*LaneInput){func(in *LaneInput) {
				in.Local[1].Domain.RegCost = uct.Linear{C: 16e-6, M: 0.06e-9}
				b := 0.98 * in.Local[1].Attr.Perf.BandwidthDedicated
				in.Local[0].Attr.Perf.BandwidthDedicated, in.Remote.Devices[0].Ifaces[0].Attr.Bandwidth = b, b
			}},
			want: "0 tcp/1: rma_bw#0 am; 1 tcp/0: rma_bw#1 wireup"},
		{name: "two tcp devices, one lane", tls: "tcp", dev: "all",
			edit: []func(*LaneInput){func(in *LaneInput) { in.Limits = LaneLimits{Total: 1, FastPath: 1, Rndv: 2} }},
			want: "0 tcp/1: rma_bw#0 am wireup"},
		{name: "no rendezvous by access", tls: "tcp", dev: "all",
			edit: []func(*LaneInput){func(in *LaneInput) { in.RndvScheme = RndvSchemeAM }},
			want: "0 tcp/1: am wireup"},
		{name: "rendezvous by reading", tls: "tcp", dev: "lo",
			edit: []func(*LaneInput){func(in *LaneInput) { in.RndvScheme = RndvSchemeGet }},
			want: "0 tcp/0: am wireup"},
		{name: "rendezvous by reading, and somebody does", tls: "tcp", dev: "all",
			edit: []func(*LaneInput){func(in *LaneInput) {
				in.RndvScheme = RndvSchemeGet
				in.Local[0].Attr.Flags |= uct.IfaceGetZcopy
				in.Remote.Devices[0].Ifaces[0].Attr.Flags |= PeerGet
			}},
			want: "0 tcp/1: am; 1 tcp/0: rma_bw#0 wireup"},
		{name: "rendezvous by writing", tls: "tcp", dev: "lo",
			edit: []func(*LaneInput){func(in *LaneInput) { in.RndvScheme = RndvSchemePut }},
			want: "0 tcp/0: rma_bw#0 am wireup"},
		{name: "several eager lanes", tls: "tcp", dev: "all",
			edit: []func(*LaneInput){func(in *LaneInput) { in.Limits = LaneLimits{Total: 6, FastPath: 5, Rndv: 1, Eager: 2, MaxRatio: 4} }},
			want: "0 tcp/1: rma_bw#0 am am_bw#0; 1 tcp/0: am_bw#1 wireup"},
		{name: "posix and cma", tls: "posix,cma", dev: "all", edit: []func(*LaneInput){features(all)},
			want: "0 posix/0: rma#0 amo#0 am; 1 cma/1: rma_bw#0"},
		{name: "peer error mode", tls: "tcp", dev: "lo",
			edit: []func(*LaneInput){errMode},
			want: "0 tcp/0: am keepalive wireup"},
		{name: "peer error mode with invalidation", tls: "tcp", dev: "lo",
			edit: []func(*LaneInput){errMode, func(in *LaneInput) { in.Local[0].Domain.Flags |= uct.MDFlagInvalidateRMA }},
			want: "0 tcp/0: rma_bw#0 am keepalive wireup"},
		{name: "wakeup", tls: "tcp", dev: "lo", edit: []func(*LaneInput){features(FeatureTag | FeatureWakeup)},
			want: "0 tcp/0: rma_bw#0 am wireup"},
		{name: "a listener's connection", tls: "tcp", dev: "lo",
			edit: []func(*LaneInput){func(in *LaneInput) { in.CM = true }},
			want: "0 -: cm; 1 tcp/0: rma_bw#0 am wireup"},
		{name: "many endpoints", tls: "tcp", dev: "lo",
			edit: []func(*LaneInput){func(in *LaneInput) { in.NumEndpoints = 1000 }},
			want: "0 tcp/0: rma_bw#0 am wireup"},
		{name: "more paths", tls: "tcp", dev: "lo",
			edit: []func(*LaneInput){func(in *LaneInput) {
				in.Local[0].Attr.NumPaths = 3
				in.Remote.Devices[0].NumPaths = 2
			}},
			want: "0 tcp/0: rma_bw#0 am; 1 tcp/0: rma_bw#1 wireup"},
	} {
		for _, version := range []string{"v1", "v2"} {
			t.Run(tc.name+", "+version, func(t *testing.T) {
				in := laneInput(capturedAddress(t, "1.22.0", tc.tls, tc.dev, version), tc.edit...)
				c, trace, err := SelectLanes(in)
				if err != nil {
					t.Fatal(err)
				}
				if got := uses(&c); got != tc.want {
					t.Errorf("\n got %s\nwant %s\n%s", got, tc.want, trace.String())
				}
			})
		}
	}
}

// TestSelectLanesDropsSlow checks that a lane much slower than the fastest is not used, as it would
// delay striped messages.
func TestSelectLanesDropsSlow(t *testing.T) {
	in := laneInput(capturedAddress(t, "1.22.0", "tcp", "all", "v1"))
	in.Local[1].Attr.Perf.BandwidthDedicated *= 100
	in.Remote.Devices[1].Ifaces[0].Attr.Bandwidth *= 100
	c, trace, err := SelectLanes(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := uses(&c), "0 tcp/1: rma_bw#0 am wireup"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !strings.Contains(trace.String(), "tcp/0 not used: 11.27 MB/s, the fastest lane has 1191.37") {
		t.Errorf("no word of it in\n%s", trace.String())
	}
}

func TestSelectLanesUnreachable(t *testing.T) {
	tcp := capturedAddress(t, "1.22.0", "tcp", "lo", "v1")
	for _, tc := range []struct {
		name string
		edit func(in *LaneInput)
		want string
	}{
		{"no transport in common", func(in *LaneInput) { in.Local[0].Transport = TransportPosix }, "have no common transport"},
		{"other network", func(in *LaneInput) {
			in.Reachable = func(int, *AddressDevice, *AddressIface) error { return errors.New("no route") }
		}, "tcp/0 -> addr[0] tcp: no route"},
		{"no messages", func(in *LaneInput) { in.Local[0].Attr.Flags &^= uct.IfaceAMBcopy }, "no am bcopy"},
		{"short messages", func(in *LaneInput) { in.Local[0].Attr.AM.MaxBcopy = 63 }, "no transport"},
		{"peer without messages", func(in *LaneInput) { in.Remote.Devices[0].Ifaces[0].Attr.Flags = 0 }, "peer has no am sync callback"},
		{"no failure handling", func(in *LaneInput) { in.ErrMode = ErrModePeer; in.Local[0].Attr.Flags &^= uct.IfaceErrHandlePeerFail }, "ErrModePeer needs that"},
		{"no wakeup", func(in *LaneInput) { in.Features |= FeatureWakeup; in.Local[0].Attr.Events = uct.EventRecv }, "no send completion event"},
		{"no keepalive", func(in *LaneInput) {
			in.ErrMode, in.Keepalive = ErrModePeer, true
			in.Local[0].Attr.Flags &^= uct.IfaceConnectToIface | uct.IfaceEpCheck | uct.IfaceEpKeepalive
		}, "no way to check the peer"},
		{"no features", func(in *LaneInput) { in.Features = 0 }, "no feature"},
		{"empty address", func(in *LaneInput) { in.Remote = &WorkerAddress{} }, "no transport"},
		{"nothing here", func(in *LaneInput) { in.Local = nil }, "no transport"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tcp := *tcp
			tcp.Devices = append([]AddressDevice(nil), tcp.Devices...)
			tcp.Devices[0].Ifaces = append([]AddressIface(nil), tcp.Devices[0].Ifaces...)
			in := laneInput(&tcp, tc.edit)
			_, trace, err := SelectLanes(in)
			if !errors.Is(err, ucs.ErrUnreachable) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q\n%s", err, tc.want, trace.String())
			}
		})
	}
}

// TestLaneLines compares with a line of ucx_info -e of 1.22.0.
func TestLaneLines(t *testing.T) {
	in := laneInput(capturedAddress(t, "1.22.0", "tcp", "lo", "v1"))
	in.Local[0].Attr.Resource.Device = "lo"
	c, _, err := SelectLanes(in)
	if err != nil {
		t.Fatal(err)
	}
	want := "lane[0]:  0:tcp/lo.0 md[0]                -> md[0]/tcp/sysdev[255] seg 4294967295 rma_bw#0 am wireup"
	if got := c.Lines(); len(got) != 1 || got[0] != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestCaps(t *testing.T) {
	if got, want := Caps(&uct.IfaceAttr{Flags: tcpFlags, Events: uct.EventSendComp | uct.EventRecv}), IfaceCaps(0x231300); got != want {
		t.Errorf("tcp %#x, want %#x", got, want)
	}
	const some = CapAtomic32 | CapAtomic64 | CapCBAsync
	for _, c := range []struct {
		a32, a64 uct.AtomicOps
		want     IfaceCaps
	}{
		{anyAtomic, anyAtomic, some},
		{anyAtomic, uct.AtomicOps{}, CapAtomic32 | CapCBAsync},
		{uct.AtomicOps{Post: anyAtomic.Post, Fetch: 1}, anyAtomic, CapAtomic64 | CapCBAsync},
		{anyAtomic, uct.AtomicOps{Fetch: anyAtomic.Fetch}, CapAtomic32 | CapCBAsync},
	} {
		if got := Caps(&uct.IfaceAttr{Flags: posixFlags | uct.IfaceCBAsync, Atomic32: c.a32, Atomic64: c.a64}) & some; got != c.want {
			t.Errorf("atomics %+v, %+v: %#x, want %#x", c.a32, c.a64, got, c.want)
		}
	}
}

// TestTraceDigest checks that the digests of traces are equal if and only if the traces are.
func TestTraceDigest(t *testing.T) {
	made := func(edit func(*LaneTrace)) uint64 {
		_, trace, err := SelectLanes(laneInput(capturedAddress(t, "1.22.0", "tcp", "all", "v1")))
		if err != nil {
			t.Fatal(err)
		}
		edit(&trace)
		return trace.Digest()
	}
	same := made(func(*LaneTrace) {})
	if made(func(*LaneTrace) {}) != same {
		t.Error("two digests of one trace")
	}
	for what, edit := range map[string]func(*LaneTrace){
		"a step less":      func(t *LaneTrace) { t.Steps = t.Steps[1:] },
		"another choice":   func(t *LaneTrace) { t.Steps[0].Chosen++ },
		"another outcome":  func(t *LaneTrace) { t.Steps[1].Outcome += "." },
		"a candidate less": func(t *LaneTrace) { s := &t.Steps[0]; s.Candidates = s.Candidates[1:] },
		"another score":    func(t *LaneTrace) { t.Steps[0].Candidates[0].Score += 1e-9 },
		"another reason":   func(t *LaneTrace) { t.Steps[0].Candidates[0].Rejected += "." },
	} {
		if made(edit) == same {
			t.Errorf("%s has the same digest", what)
		}
	}
	if s := (*LaneTrace)(nil).String(); s != "" {
		t.Errorf("no trace prints %q", s)
	}
}

// TestCompareScores compares with ucs_fp_compare.
func TestCompareScores(t *testing.T) {
	for _, tc := range []struct {
		a, b float64
		want int
	}{{1, 1, 0}, {0, 0, 0}, {1, 1 + 1e-6, 0}, {1, 1 + 3e-6, -1}, {2, 1, 1}} {
		if got := compareScores(tc.a, tc.b); got != tc.want {
			t.Errorf("%g and %g: %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

// TestScores checks the formulas for scores with round numbers.
func TestScores(t *testing.T) {
	l := &LocalIface{
		Attr: uct.IfaceAttr{
			AM: uct.AMLimits{MaxBcopy: 8192}, NumPaths: 2,
			Perf: uct.Perf{Overhead: 1e-6, BandwidthShared: 4 << 30, Latency: uct.Linear{C: 2e-6, M: 1e-9}},
		},
		Domain: uct.MDAttr{RegCost: uct.Linear{C: 16e-6, M: 0.06e-9}},
	}
	r := remote{&AddressDevice{NumPaths: 1}, &AddressIface{Attr: IfaceAttr{Overhead: 3e-6, Bandwidth: 1 << 31, Latency: 4e-6, SegSize: 4096}}, 0}
	quick := *l
	quick.Domain.RegCost = uct.Linear{C: 9e-9}
	none := paths{}
	s := scorer{endpoints: 10, ppn: 4}
	lat := 3e-6 + 10e-9
	avail := float64(1<<30) + 1e-3*(1<<30+1<<31)
	for _, tc := range []struct {
		name      string
		got, want float64
	}{
		{"latency", s.latency(l, r), lat},
		{"am", s.am(l, r, none), 1e-3 / (lat + 4e-6)},
		{"rma", s.rma(l, r, none), 1e-3 / (lat + 1e-6 + 4096/float64(1<<30))},
		{"amo", s.amo(l, r, none), 1e-3 / (lat + 1e-6)},
		{"rma_bw", s.rmaBW(l, r, none), 1 / (262144/avail + lat + 1e-6 + 180e-9)},
		{"rma_bw, registered at once", s.rmaBW(&quick, r, none), 1 / (262144/avail + lat + 1e-6 + 9e-9)},
		{"rma_bw, from 1.16 on", scorer{announced: true, endpoints: 10, ppn: 4}.rmaBW(&quick, r, none), 1 / (262144/avail + lat + 1e-6 + 180e-9)},
		{"am_bw", s.amBW(l, r, none), 4096 / (4096/avail + lat + 4e-6) * 1e-5},
		{"bandwidth left", s.available(l, r, paths{{local: 0, remote: -1}}), 0.5*(1<<30) + 1e-3*(0.5*(1<<30)+1<<31)},
		{"bandwidth left by ratio", scorer{endpoints: 10, ppn: 4, pathRatio: 0.2}.available(l, r, paths{{local: 0, remote: -1}}), 0.8*(1<<30) + 1e-3*(0.8*(1<<30)+1<<31)},
		{"latency, rounded", scorer{v2: true, endpoints: 10}.latency(l, r), (4e-6 + 1984e-9) / 2},
		{"bandwidth, rounded", scorer{v2: true}.ours(&LocalIface{Attr: uct.IfaceAttr{Perf: uct.Perf{BandwidthDedicated: 1.05 * (1 << 30)}}}), 1 << 30},
	} {
		if math.Abs(tc.got-tc.want) > 1e-9*math.Abs(tc.want) {
			t.Errorf("%s: %.12g, want %.12g", tc.name, tc.got, tc.want)
		}
	}
}

// TestSelectLanesHostile checks that no numbers in a peer's address and no settings break the
// selection, and that its result is consistent.
func TestSelectLanesHostile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawLaneInput(t)
		c, trace, err := SelectLanes(in)
		_ = trace.String()
		if err != nil {
			if !errors.Is(err, ucs.ErrUnreachable) && !errors.Is(err, ucs.ErrExceedsLimit) {
				t.Fatalf("%v", err)
			}
			return
		}
		_ = c.Lines()
		if len(c.Lanes) == 0 || len(c.Lanes) > in.Limits.orDefault().Total {
			t.Fatalf("%d lanes, limits %+v", len(c.Lanes), in.Limits)
		}
		seen := map[[3]int]bool{}
		for i, l := range c.Lanes {
			if l.Types == 0 {
				t.Fatalf("lane %d has no use", i)
			}
			for _, s := range l.Scores {
				if !(s >= 0) || math.IsInf(s, 0) {
					t.Fatalf("lane %d: score %g", i, s)
				}
			}
			key := [3]int{l.Local, l.Remote, l.Path}
			if seen[key] {
				t.Fatalf("lane %d twice", i)
			}
			seen[key] = true
		}
		if in.Features&(FeatureTag|FeatureStream|FeatureAM) != 0 && int(c.AM) >= len(c.Lanes) {
			t.Fatalf("no lane for active messages")
		}
		again, _, _ := SelectLanes(in)
		if uses(&again) != uses(&c) {
			t.Fatalf("not repeatable")
		}
	})
}

func drawLaneInput(t *rapid.T) *LaneInput {
	flags := rapid.SampledFrom([]uct.IfaceFlags{tcpFlags, posixFlags, cmaFlags, 0, math.MaxUint64})
	ids := rapid.SampledFrom([]TransportID{TransportTCP, TransportPosix})
	atomics := rapid.SampledFrom([]uct.AtomicOps{anyAtomic, {Post: 1, Fetch: 1}, {}})
	in := &LaneInput{
		Features:     Features(rapid.IntRange(0, 127).Draw(t, "features")),
		ErrMode:      ErrMode(rapid.IntRange(0, 2).Draw(t, "error mode")),
		Keepalive:    rapid.Bool().Draw(t, "keepalive"),
		CM:           rapid.Bool().Draw(t, "cm"),
		NumEndpoints: rapid.IntRange(-1, 1000).Draw(t, "endpoints"),
		PPN:          rapid.IntRange(-1, 100).Draw(t, "ppn"),
		RndvScheme:   RndvScheme(rapid.IntRange(0, 2).Draw(t, "scheme")),
		Remote:       &WorkerAddress{Version: AddressVersion(rapid.IntRange(0, 1).Draw(t, "version"))},
	}
	if rapid.Bool().Draw(t, "limits") {
		n := rapid.IntRange(-1, 100)
		in.Limits = LaneLimits{n.Draw(t, "total"), n.Draw(t, "fast"), n.Draw(t, "rndv"), n.Draw(t, "eager"), n.Draw(t, "rma"), drawFloat(t, "ratio"), rapid.Bool().Draw(t, "slow"), drawFloat(t, "path")}
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "local") {
		md := rapid.Bool()
		l := LocalIface{
			Transport: ids.Draw(t, "id"), Device: rapid.IntRange(0, 2).Draw(t, "device"),
			MD: uint8(rapid.IntRange(0, 2).Draw(t, "md")), Auxiliary: md.Draw(t, "aux"),
			Domain: uct.MDAttr{
				Flags:   uct.MDFlags(rapid.Uint64Range(0, 1<<12-1).Draw(t, "domain")),
				RegCost: uct.Linear{C: drawFloat(t, "reg c"), M: drawFloat(t, "reg m")},
			},
			Attr: uct.IfaceAttr{
				Resource: uct.Resource{Transport: "local", Device: fmt.Sprint(i)},
				Flags:    flags.Draw(t, "flags"), Events: uct.EventFlags(rapid.IntRange(0, 3).Draw(t, "events")),
				AM:       uct.AMLimits{MaxBcopy: rapid.IntRange(-1, 10000).Draw(t, "bcopy")},
				Atomic32: atomics.Draw(t, "a32"), Atomic64: atomics.Draw(t, "a64"),
				MaxEndpoints: rapid.IntRange(0, 300).Draw(t, "eps"), NumPaths: rapid.IntRange(-1, 4).Draw(t, "paths"),
				Perf: uct.Perf{
					Overhead:           drawFloat(t, "overhead"),
					BandwidthDedicated: drawFloat(t, "bandwidth"), BandwidthShared: drawFloat(t, "shared bandwidth"),
					Latency:  uct.Linear{C: drawFloat(t, "latency"), M: drawFloat(t, "growth")},
					Priority: uint8(rapid.IntRange(0, 255).Draw(t, "priority")),
				},
			},
		}
		if md.Draw(t, "access") {
			l.Domain.AccessTypes = []ucs.MemoryType{ucs.MemoryHost}
		}
		in.Local = append(in.Local, l)
	}
	for range rapid.IntRange(0, 4).Draw(t, "devices") {
		d := AddressDevice{
			MD: uint8(rapid.IntRange(0, 255).Draw(t, "dst md")), NumPaths: uint8(rapid.IntRange(0, 255).Draw(t, "dst paths")),
			SysDev: uint8(rapid.SampledFrom([]int{0, 1, 255}).Draw(t, "sys dev")),
		}
		for range rapid.IntRange(0, 2).Draw(t, "ifaces") {
			d.Ifaces = append(d.Ifaces, AddressIface{Transport: ids.Draw(t, "dst id"), Attr: IfaceAttr{
				Overhead: drawFloat(t, "dst overhead"), Bandwidth: drawFloat(t, "dst bandwidth"), Latency: drawFloat(t, "dst latency"),
				SegSize: rapid.IntRange(0, 1<<22).Draw(t, "seg"),
				Flags:   PeerFlags(rapid.SampledFrom([]int{0, 0x3FF, 0x8B, 0x9B}).Draw(t, "dst flags")),
			}})
		}
		in.Remote.Devices = append(in.Remote.Devices, d)
	}
	return in
}

// TestSelectLanesEqual checks that of equal transports the one that the peer lists first is chosen,
// whatever the local order.
func TestSelectLanesEqual(t *testing.T) {
	for _, want := range []TransportID{TransportPosix, TransportSysV} {
		a := *capturedAddress(t, "1.22.0", "tcp", "lo", "v1")
		f := a.Devices[0].Ifaces[0]
		f.Transport = TransportPosix ^ TransportSysV ^ want
		g := f
		g.Transport = want
		a.Devices[0].Ifaces = []AddressIface{g, f}
		in := laneInput(&a)
		for range 2 {
			in.Local[0], in.Local[1] = in.Local[1], in.Local[0]
			c, trace, err := SelectLanes(in)
			if err != nil {
				t.Fatal(err)
			}
			if got := in.Local[c.Lanes[c.AM].Local].Transport; got != want {
				t.Errorf("%v, want %v\n%s", got, want, trace.String())
			}
		}
	}
}
