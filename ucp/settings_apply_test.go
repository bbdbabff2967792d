package ucp

import (
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// parsed returns the worker's address, parsed.
func (v *targetWorker) parsed() proto.WorkerAddress {
	v.Helper()
	a, _, err := proto.ParseAddress(v.own.address, proto.FormWorker)
	if err != nil {
		v.Fatal(err)
	}
	return a
}

// TestAddressVersion checks that the worker's address has the version of the setting, and that an
// endpoint to it works.
func TestAddressVersion(t *testing.T) {
	for setting, want := range map[string]proto.AddressVersion{"v1": proto.AddressV1, "V2": proto.AddressV2} {
		t.Run(setting, func(t *testing.T) {
			v := newTarget(t, "ADDRESS_VERSION", setting)
			a := v.parsed()
			if a.Version != want || v.own.emptyAddress().Version != want {
				t.Errorf("version %v and %v without devices, want %v", a.Version, v.own.emptyAddress().Version, want)
			}
			seg := a.Devices[0].Ifaces[0].Attr.SegSize
			if told := want == proto.AddressV2; (seg > 0) != told || seg > v.ifaces[0].attr.AM.MaxBcopy {
				t.Errorf("messages of %d bytes are announced, %d are taken", seg, v.ifaces[0].attr.AM.MaxBcopy)
			}
			v.exchange()
		})
	}
	if new(addressVersion).ParseConfig("v3") == nil {
		t.Error("v3 was accepted")
	}
}

// TestAddressName checks that the address contains the names of host and process if the setting
// asks for it, cut to the maximum length.
func TestAddressName(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	full := host + ":" + strconv.Itoa(os.Getpid())
	for _, tc := range []struct {
		settings []string
		want     string
	}{
		{nil, ""},
		{[]string{"ADDRESS_DEBUG_INFO", "y"}, full[:min(len(full), 32)]},
		{[]string{"ADDRESS_DEBUG_INFO", "y", "MAX_WORKER_ADDRESS_NAME", "2"}, full[:2]},
		{[]string{"ADDRESS_DEBUG_INFO", "y", "MAX_WORKER_NAME", "3", "ADDRESS_VERSION", "v2"}, full[:3]},
		{[]string{"ADDRESS_DEBUG_INFO", "y", "MAX_WORKER_NAME", "100000"}, full[:min(len(full), 255)]},
	} {
		v := newTarget(t, tc.settings...)
		if got := v.parsed(); got.Name != tc.want || got.Flags&proto.AddressHasName != 0 != (tc.want != "") {
			t.Errorf("%q: name %q, flags %#x; want %q", tc.settings, got.Name, got.Flags, tc.want)
		}
	}
}

// TestProtocolList checks that patterns in UCX_PROTOS limit which protocols an endpoint uses, as
// its explanation shows.
func TestProtocolList(t *testing.T) {
	uses := func(v *targetWorker, name string) bool {
		plain := v.ep.Explain().Protocols[0]
		return slices.ContainsFunc(plain.Ranges, func(r ProtocolRange) bool { return strings.Contains(r.Protocol, name) })
	}
	for list, want := range map[string]struct{ short, multi bool }{
		"all":                        {true, true},
		"^*short":                    {false, true},
		"^*multi*":                   {true, false},
		"*sing*,rndv/*,*/am/*":       {false, false},
		"egr/sh?rt,egr/*/[a-b]copy,": {true, true},
	} {
		v := newTarget(t, "PROTOS", list)
		if short, multi := uses(v, "egr/short"), uses(v, "egr/multi"); short != want.short || multi != want.multi {
			t.Errorf("UCX_PROTOS=%s: short %v, fragments %v, want %v and %v", list, short, multi, want.short, want.multi)
		}
		if v.ep.shortBelow > 0 != want.short {
			t.Errorf("UCX_PROTOS=%s: the short path takes %d bytes", list, v.ep.shortBelow-1)
		}
		v.exchange()
	}
	if err := new(protoList).ParseConfig("egr/[a"); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("a broken pattern: %v", err)
	}
}

// TestProtoSettings checks that the settings reach the cost model and the lane selection.
func TestProtoSettings(t *testing.T) {
	v := newTarget(t, "RNDV_PERF_DIFF", "5", "MULTI_LANE_MAX_RATIO", "2", "MIN_RNDV_CHUNK_SIZE", "1k", "MAX_RNDV_LANES", "7",
		"MAX_EAGER_LANES", "3", "MAX_RMA_LANES", "5")
	p := v.selection.protoSettings(v.ifaces[0])
	if p.RndvBias != 0.05 || p.Spread != (proto.Spread{MaxRatio: 2, MinChunk: 1 << 10}) {
		t.Errorf("bias %v, %+v", p.RndvBias, p.Spread)
	}
	if l := v.selection.laneInput(v.peers.self.Address(), ErrModeNone, &laneRules{}).Limits; l.Rndv != 7 || l.Eager != 3 || l.RMA != 5 || l.MaxRatio != 2 || l.Total != 16 {
		t.Errorf("limits of the selection %+v", l)
	}
	for _, name := range []string{"MIN_RNDV_CHUNK_SIZE", "MIN_RMA_CHUNK_SIZE"} {
		cfg, err := ReadConfig("", "")
		if err != nil {
			t.Fatal(err)
		}
		cfg.Modify(name, "0")
		if _, err := NewContext(ContextParams{}, cfg); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("parts of nothing: %v", err)
		}
	}
}

// TestSingleNetDevice checks that only the lanes of one network device are used if the setting asks
// for it, chosen by the local number of the process.
func TestSingleNetDevice(t *testing.T) {
	v := newTarget(t)
	of := func(device string, kind uct.DeviceType) proto.LocalIface {
		return proto.LocalIface{Attr: uct.IfaceAttr{Resource: uct.Resource{Transport: "t", Device: device, Type: kind}}}
	}
	locals := v.selection.locals
	defer func() { v.selection.locals = locals }()
	v.selection.locals = []proto.LocalIface{
		of("eth1", uct.DeviceNetwork), of("eth0", uct.DeviceNetwork), of("memory", uct.DeviceShared), of("eth1", uct.DeviceNetwork),
	}
	c := &proto.LaneConfig{
		Lanes: []proto.Lane{{Local: 0}, {Local: 1}, {Local: 2}, {Local: 3}},
		AM:    1, Wireup: 2, RMABW: []uint8{0, 1, 2, 3},
	}
	for _, tc := range []struct {
		single bool
		id     string
		want   []uint8
	}{
		{false, "auto", []uint8{0, 1, 2, 3}},
		{true, "auto", []uint8{1, 2}},
		{true, "1", []uint8{0, 2, 3}},
		{true, "2", []uint8{1, 2}},
		{true, "inf", []uint8{0, 2, 3}},
	} {
		v.ctx.settings.SingleNet = tc.single
		if err := v.ctx.settings.NodeLocalID.ParseConfig(tc.id); err != nil {
			t.Fatal(err)
		}
		if got := v.selection.laneMap(c).Bandwidth; !slices.Equal(got, tc.want) {
			t.Errorf("one device %v, process %s: lanes %v, want %v", tc.single, tc.id, got, tc.want)
		}
	}
	for via, want := range map[bool]uint8{false: 2, true: 1} {
		v.ctx.settings.WireupByAM = via
		if got := v.selection.laneMap(c).Wireup; got != want {
			t.Errorf("wireup over the lane for messages %v: lane %d, want %d", via, got, want)
		}
	}
}

// TestInterfaceLimits checks that settings can limit the sizes and atomic operations of an
// interface.
func TestInterfaceLimits(t *testing.T) {
	all := uct.AtomicOps{Post: 1, Fetch: 1}
	a := uct.IfaceAttr{Atomic32: all, Atomic64: all}
	a.Put.MaxZcopy, a.Get.MaxZcopy, a.Get.MinZcopy = math.MaxInt, math.MaxInt, 100
	for _, tc := range []struct {
		settings []string
		flags    uct.IfaceFlags
		put, get int
		atomics  bool
	}{
		{nil, 0, math.MaxInt, math.MaxInt, true},
		{[]string{"ATOMIC_MODE", "cpu"}, uct.IfaceAtomicCPU, math.MaxInt, math.MaxInt, true},
		{[]string{"ATOMIC_MODE", "cpu"}, uct.IfaceAtomicDevice, math.MaxInt, math.MaxInt, false},
		{[]string{"ATOMIC_MODE", "device"}, uct.IfaceAtomicCPU, math.MaxInt, math.MaxInt, false},
		{[]string{"ATOMIC_MODE", "device"}, uct.IfaceAtomicDevice, math.MaxInt, math.MaxInt, true},
		{[]string{"RMA_ZCOPY_MAX_SEG_SIZE", "4k"}, 0, 4096, 4096, true},
		{[]string{"RMA_ZCOPY_MAX_SEG_SIZE", "10"}, 0, 10, 100, true},
	} {
		v := newTarget(t, tc.settings...)
		a.Flags = tc.flags
		got := v.ctx.settings.limited(&a)
		if got.Put.MaxZcopy != tc.put || got.Get.MaxZcopy != tc.get || (got.Atomic32 == all && got.Atomic64 == all) != tc.atomics {
			t.Errorf("%q: put %d, get %d, atomics %+v", tc.settings, got.Put.MaxZcopy, got.Get.MaxZcopy, got.Atomic32)
		}
	}
	if a.Put.MaxZcopy != math.MaxInt || a.Atomic32 != all {
		t.Error("the transport's own attributes have changed")
	}
	v := newTarget(t, "ATOMIC_MODE", "device")
	if caps := v.parsed().Devices[0].Ifaces[0].Attr.Flags; caps&(proto.PeerAtomic32|proto.PeerAtomic64) != 0 {
		t.Error("peers are told of atomic operations by the CPU")
	}
}

// TestFenceMode checks that a strong fence delays later operations even if the connection preserves
// the order.
func TestFenceMode(t *testing.T) {
	for mode, want := range map[string]bool{"weak": false, "auto": false, "ep_based": false, "strong": true} {
		v := newTarget(t, "FENCE_MODE", mode)
		v.ep.flow().messages = true
		if got := v.ep.w.rma.fenceNeedsFlush(v.ep); got != want {
			t.Errorf("%s: holds back %v, want %v", mode, got, want)
		}
	}
}

// TestBacklogSetting checks the backlog that is passed to connection managers: 0, which means their
// maximum, for auto.
func TestBacklogSetting(t *testing.T) {
	for value, want := range map[string]int{"auto": 0, "0": 1, "5": 5, "inf": math.MaxInt} {
		if got := newTarget(t, "LISTENER_BACKLOG", value).ctx.settings.backlog(); got != want {
			t.Errorf("%s: %d, want %d", value, got, want)
		}
	}
}

// TestMaxComponentMDs checks that memory domains beyond the limit are left out, with the setting as
// the reason.
func TestMaxComponentMDs(t *testing.T) {
	cfg, err := ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Modify("MAX_COMPONENT_MDS", "0")
	if _, err := NewContext(ContextParams{}, cfg); !errors.Is(err, ucs.ErrNoDevice) || !strings.Contains(err.Error(), "UCX_MAX_COMPONENT_MDS") {
		t.Errorf("without any domain: %v", err)
	}
}

// watchLog collects what the library logs during the test, from the given level on.
func watchLog(t *testing.T, level zapcore.Level) *observer.ObservedLogs {
	core, logs := observer.New(level)
	previous := log.SetLogger(zap.New(core))
	t.Cleanup(func() { log.SetLogger(previous) })
	return logs
}

// TestPrintTransportTables checks that transports and lanes are logged if the setting asks for it,
// and with auto at level debug.
func TestPrintTransportTables(t *testing.T) {
	for _, tc := range []struct {
		setting string
		level   zapcore.Level
		want    bool
	}{
		{"auto", zapcore.InfoLevel, false},
		{"auto", zapcore.DebugLevel, true},
		{"on", zapcore.InfoLevel, true},
		{"off", zapcore.DebugLevel, false},
	} {
		logs := watchLog(t, tc.level)
		ctx := targetContext(t, "PRINT_TRANSPORT_TABLES", tc.setting)
		w := openTarget(t, ctx)
		if _, err := w.NewEndpoint(EndpointParams{Address: w.own.address}); err != nil {
			t.Fatal(err)
		}
		var transports, lanes bool
		for _, e := range logs.All() {
			transports = transports || strings.Contains(e.Message, "self/memory") && strings.Contains(e.Message, "resource")
			lanes = lanes || strings.HasPrefix(e.Message, "lane[0]")
		}
		if transports != tc.want || lanes != tc.want {
			t.Errorf("%s at %v: transports %v, lanes %v, want %v", tc.setting, tc.level, transports, lanes, tc.want)
		}
		w.Close()
		ctx.Close()
	}
}

// TestWarnInvalidConfig checks that the warning about unknown transports can be disabled.
func TestWarnInvalidConfig(t *testing.T) {
	for setting, want := range map[string]int{"y": 1, "n": 0} {
		logs := watchLog(t, zapcore.WarnLevel)
		targetContext(t, "TLS", "self,nosuch", "WARN_INVALID_CONFIG", setting).Close()
		if got := logs.FilterMessage("unknown transport in UCX_TLS").Len(); got != want {
			t.Errorf("%s: %d warnings, want %d", setting, got, want)
		}
	}
}
