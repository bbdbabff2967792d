package proto

import (
	"math"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// posixRMALane reaches memory that posix maps, cmaRMALane any memory of a process of this host,
// tcpRMALane any memory of a peer in the network, deviceRMALane memory that a network device
// accesses.
func posixRMALane() RMALane {
	return RMALane{Perf: posixInput().AM, PutShort: 1 << 30, PutBcopy: math.MaxInt, GetBcopy: math.MaxInt, Atomic32: true, Atomic64: true}
}

func cmaRMALane() RMALane {
	p := cmaInput().Put[0]
	return RMALane{Perf: p, PutZcopy: p.PutZcopy, GetZcopy: p.GetZcopy}
}

func tcpRMALane() RMALane { return RMALane{Perf: tcpLane(), PutZcopy: math.MaxInt} }

func deviceRMALane() RMALane {
	return RMALane{
		Perf: LanePerf{
			Name: "rc/dev", SendOverhead: 40e-9, RecvOverhead: 40e-9, Latency: 600e-9, Bandwidth: 12 << 30,
			RegCost: uct.Linear{C: 60e-9, M: 0},
		},
		PutShort: 172, PutBcopy: 8256, PutZcopy: 1 << 30, GetBcopy: 8256, GetZcopy: 1 << 30,
		MinGetZcopy: 65, Atomic64: true,
	}
}

func TestRMATables(t *testing.T) {
	am := posixInput().AM
	shared := func(lanes ...RMALane) *RMAInput {
		return &RMAInput{AM: am, Lanes: lanes, Settings: DefaultProtoSettings()}
	}
	network := func(lanes ...RMALane) *RMAInput {
		return &RMAInput{AM: tcpLane(), Lanes: lanes, Settings: DefaultProtoSettings()}
	}
	with := func(in *RMAInput, bcopy, zcopy Threshold) *RMAInput {
		in.Settings.BcopyThresh, in.Settings.ZcopyThresh = bcopy, zcopy
		return in
	}
	const auto = ThreshAuto
	for _, tc := range []struct {
		name     string
		in       *RMAInput
		class    DataClass
		put, get string
	}{
		{"nothing", shared(), DataContig, "put/am/bcopy", "get/am/bcopy"},
		{"posix", shared(posixRMALane()), DataContig, "put/offload/short..1G put/offload/bcopy", "get/bcopy"},
		{"posix, mapped", shared(posixRMALane()), DataMapped, "put/offload/short..1G put/offload/bcopy", "get/bcopy"},
		{"posix, iov", shared(posixRMALane()), DataIOV, "put/offload/bcopy", "get/bcopy"},
		{"posix, generic", shared(posixRMALane()), DataGeneric, "put/offload/bcopy", "get/bcopy"},
		{"posix, bcopy 1000", with(shared(posixRMALane()), 1000, auto), DataContig, "put/offload/short..999 put/offload/bcopy", "get/bcopy..999 get/bcopy"},
		{"posix, no zcopy", with(shared(posixRMALane()), auto, 0), DataContig, "put/offload/short..1G put/offload/bcopy", "get/bcopy"},
		{"cma", shared(cmaRMALane()), DataContig, "put/am/bcopy..~ put/offload/zcopy", "get/zcopy"},
		{"cma, iov", shared(cmaRMALane()), DataIOV, "put/am/bcopy..~ put/offload/zcopy", "get/zcopy"},
		{"cma, generic", shared(cmaRMALane()), DataGeneric, "put/am/bcopy", "get/am/bcopy"},
		{"cma, zcopy 100", with(shared(cmaRMALane()), auto, 100), DataContig, "put/am/bcopy..99 put/offload/zcopy", "get/am/bcopy..99 get/zcopy"},
		{"cma, zcopy 0", with(shared(cmaRMALane()), auto, 0), DataContig, "put/offload/zcopy", "get/zcopy"},
		{"cma, zcopy never", with(shared(cmaRMALane()), auto, ThreshInf), DataContig, "put/am/bcopy", "get/am/bcopy"},
		{"both", shared(posixRMALane(), cmaRMALane()), DataContig, "put/offload/short..1G put/offload/bcopy", "get/bcopy"},
		{"both, zcopy 64K", with(shared(posixRMALane(), cmaRMALane()), auto, 64<<10), DataContig,
			"put/offload/short..65535 put/offload/zcopy", "get/bcopy..65535 get/zcopy"},
		{"tcp", network(tcpRMALane()), DataContig, "put/am/bcopy..~ put/offload/zcopy", "get/am/bcopy"},
		{"tcp, zcopy 0", with(network(tcpRMALane()), auto, 0), DataContig, "put/offload/zcopy", "get/am/bcopy"},
		{"device", network(deviceRMALane()), DataContig,
			"put/offload/short..172 put/offload/bcopy..~ put/offload/zcopy", "get/bcopy..~ get/zcopy"},
		// No threshold can ask for a protocol that the transport does not have.
		{"device, zcopy 0", with(network(deviceRMALane()), auto, 0), DataContig, "put/offload/zcopy", "get/bcopy..64 get/zcopy"},
	} {
		tables := NewRMATables(tc.in)
		e := tables.Explain(tc.class)
		if got := ranges(e[0]); !sameRanges(got, tc.put) {
			t.Errorf("%s: put %s, want %s", tc.name, got, tc.put)
		}
		if got := ranges(e[1]); !sameRanges(got, tc.get) {
			t.Errorf("%s: get %s, want %s", tc.name, got, tc.get)
		}
		for k, table := range []*Table{tables.Put(tc.class), tables.Get(tc.class)} {
			for _, r := range e[k].Ranges {
				for _, n := range []int{r.Min, r.Max} {
					if got := table.Lookup(n); got != r.Proto {
						t.Errorf("%s: the table has %v for %d bytes, its explanation %v", tc.name, got, n, r.Proto)
					}
				}
			}
		}
	}
}

// TestRMALines checks the length at which zero-copy replaces messages. On one measured host it is
// near 8 KiB for cma and between 16 and 32 KiB for tcp, which sends messages in batches.
func TestRMALines(t *testing.T) {
	for name, c := range map[string]struct {
		in       *RMAInput
		from, to int
	}{
		"cma": {&RMAInput{AM: posixInput().AM, Lanes: []RMALane{cmaRMALane()}}, 4 << 10, 16 << 10},
		"tcp": {&RMAInput{AM: tcpLane(), Lanes: []RMALane{tcpRMALane()}}, 8 << 10, 32 << 10},
	} {
		c.in.Settings = DefaultProtoSettings()
		if n := NewRMATables(c.in).Put(DataContig).MaxFirst(ProtoPutAM); n < c.from || n > c.to {
			t.Errorf("%s: messages up to %d bytes", name, n)
		}
	}
}

func TestRMARoutes(t *testing.T) {
	slow := posixRMALane()
	slow.Perf.Bandwidth /= 10
	in := &RMAInput{AM: posixInput().AM, Lanes: []RMALane{cmaRMALane(), slow, posixRMALane(), deviceRMALane()}, Settings: DefaultProtoSettings()}
	want := RMARoutes{PutShort: 2, PutBcopy: 2, PutZcopy: 3, GetBcopy: 2, GetZcopy: 3, Atomic32: 2, Atomic64: 2}
	if got := *NewRMATables(in).Routes(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	none := RMARoutes{-1, -1, -1, -1, -1, -1, -1}
	if got := *NewRMATables(&RMAInput{}).Routes(); got != none {
		t.Errorf("without lanes: %+v", got)
	}
}

func TestRMAExplain(t *testing.T) {
	in := &RMAInput{AM: posixInput().AM, Lanes: []RMALane{deviceRMALane()}, Settings: DefaultProtoSettings()}
	in.Settings.ZcopyThresh = 0
	var text []string
	for _, e := range NewRMATables(in).Explain(DataContig) {
		text = append(text, e.String())
		if e.Ranges[0].Min != 0 || e.Ranges[len(e.Ranges)-1].Max != math.MaxInt {
			t.Errorf("%s: not for all lengths", e.Title)
		}
	}
	all := strings.Join(text, "")
	for _, want := range []string{
		"remote memory write by ucp_put* from host memory to host:",
		"remote memory read by ucp_get* into host memory from host:",
		"put/offload/zcopy on rc/dev, ", "by UCX_ZCOPY_THRESH",
		"not get/zcopy: only for 65 or more",
		"amo on rc/dev", "not amo/sw: a lane supports it directly",
		"amo/sw on posix/memory", "not amo: no lane supports it",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}
