package proto

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/uct"
)

// tcpLane has the attributes of C UCX's transport tcp, as ucx_info -d prints them.
func tcpLane() LanePerf {
	return LanePerf{
		Name: "tcp/lo", MaxShort: 8192, MaxBcopy: 8192, MaxZcopy: 65536, PutZcopy: math.MaxInt,
		SendOverhead: 50e-6, RecvOverhead: 50e-6, Latency: 10.96e-6, Bandwidth: 11.91 * (1 << 20),
		Batches: true,
	}
}

func tcpInput(edit ...func(*ProtoInput)) *ProtoInput {
	in := &ProtoInput{AM: tcpLane(), Put: []LanePerf{tcpLane()}, Settings: DefaultProtoSettings()}
	for _, f := range edit {
		f(in)
	}
	return in
}

func posixInput() *ProtoInput {
	return &ProtoInput{
		AM: LanePerf{
			Name: "posix/memory", MaxShort: 100, MaxBcopy: 8256,
			SendOverhead: 10e-9, RecvOverhead: 10e-9, Latency: 80e-9, Bandwidth: 12179 << 20,
		},
		Settings: DefaultProtoSettings(),
	}
}

// mappedInput is for messages over posix to a peer whose memory posix maps.
func mappedInput(edit ...func(*ProtoInput)) *ProtoInput {
	in := posixInput()
	in.Map = []LanePerf{in.AM}
	for _, f := range edit {
		f(in)
	}
	return in
}

// cmaInput is for messages over posix, with access to the peer's memory by cma.
func cmaInput(edit ...func(*ProtoInput)) *ProtoInput {
	in := posixInput()
	lane := []LanePerf{{
		Name: "cma/memory", PutZcopy: math.MaxInt, GetZcopy: math.MaxInt,
		SendOverhead: 0.5e-6, RecvOverhead: 0.5e-6, Latency: 80e-9, Bandwidth: 11145 << 20,
	}}
	in.Put, in.Get = lane, lane
	for _, f := range edit {
		f(in)
	}
	return in
}

// ranges prints the choices of a table: "egr/short..~ rndv/put/zcopy".
func ranges(info TableInfo) string {
	var s []string
	for _, r := range info.Ranges {
		t := r.Proto.String()
		if r.Max != math.MaxInt {
			t += ".." + memUnits(r.Max)
		}
		s = append(s, t)
	}
	return strings.Join(s, " ")
}

// sameRanges compares choices. A bound "~" in want stands for any bound, as the cost model decides
// it.
func sameRanges(got, want string) bool {
	g, w := strings.Fields(got), strings.Fields(want)
	if len(g) != len(w) {
		return false
	}
	for i := range g {
		if head, ok := strings.CutSuffix(w[i], "~"); ok {
			if !strings.HasPrefix(g[i], head) {
				return false
			}
		} else if g[i] != w[i] {
			return false
		}
	}
	return true
}

// tagTables returns the tables for tagged messages, plain or synchronous.
func tagTables(in *ProtoInput, sync bool) *MessageTables {
	if sync {
		return NewMessageTables(in, MessageForm{Op: "synchronous tagged message by ucp_tag_send_sync*", Only: EagerSyncOnlySize, First: EagerSyncFirstSize})
	}
	return NewMessageTables(in, MessageForm{Op: "tagged message by ucp_tag_send*", Only: EagerOnlySize, First: EagerFirstSize, Short: true})
}

func TestMessageTables(t *testing.T) {
	set := func(f func(s *ProtoSettings)) func(*ProtoInput) { return func(in *ProtoInput) { f(&in.Settings) } }
	noPut := func(in *ProtoInput) { in.Put = nil }
	for _, tc := range []struct {
		name  string
		in    *ProtoInput
		sync  bool
		class DataClass
		mode  SendMode
		want  string
	}{
		{name: "tcp", in: tcpInput(),
			want: "egr/short..~ egr/single/zcopy..65528 egr/multi/zcopy..~ rndv/put/zcopy"},
		{name: "tcp, many sends", in: tcpInput(), mode: SendMulti,
			want: "egr/short..8184 egr/single/zcopy..65528 egr/multi/zcopy..~ rndv/put/zcopy"},
		{name: "tcp, early completion", in: tcpInput(), mode: SendFast,
			want: "egr/short..~ egr/single/zcopy..65528 egr/multi/zcopy..262143 rndv/put/zcopy"},
		{name: "tcp, synchronous", in: tcpInput(), sync: true,
			want: "egr/single/bcopy..~ egr/single/zcopy..65512 egr/multi/zcopy..~ rndv/put/zcopy"},
		{name: "tcp, iov", in: tcpInput(), class: DataIOV,
			want: "egr/single/bcopy..~ egr/single/zcopy..65528 egr/multi/zcopy..~ rndv/put/zcopy"},
		{name: "tcp, generic", in: tcpInput(), class: DataGeneric,
			want: "egr/single/bcopy..8184 egr/multi/bcopy..~ rndv/am"},
		{name: "tcp, peer not writable", in: tcpInput(noPut),
			want: "egr/short..~ egr/single/zcopy..65528 egr/multi/zcopy..~ rndv/am"},
		{name: "posix, memory that is mapped", in: mappedInput(), class: DataMapped,
			want: "egr/short..92 egr/single/bcopy..8248 rndv/rkey_ptr"},
		{name: "posix, other memory", in: mappedInput(),
			want: "egr/short..92 egr/single/bcopy..8248 egr/multi/bcopy..262143 rndv/am"},
		{name: "posix, memory nothing maps", in: posixInput(), class: DataMapped,
			want: "egr/short..92 egr/single/bcopy..8248 egr/multi/bcopy..262143 rndv/am"},
		{name: "posix, mapped, from the first byte", in: mappedInput(set(func(s *ProtoSettings) { s.RndvThresh = 0 })), class: DataMapped,
			want: "rndv/rkey_ptr"},
		{name: "posix, mapped, am", in: mappedInput(set(func(s *ProtoSettings) { s.RndvScheme = RndvSchemeAM })), class: DataMapped,
			want: "egr/short..92 egr/single/bcopy..8248 egr/multi/bcopy..262143 rndv/am"},
		{name: "posix", in: posixInput(),
			want: "egr/short..92 egr/single/bcopy..8248 egr/multi/bcopy..262143 rndv/am"},
		{name: "peer with small segments", in: tcpInput(func(in *ProtoInput) { in.AM.SegSize = 8192 }),
			want: "egr/short..~ egr/single/zcopy..8184 egr/multi/zcopy..~ rndv/put/zcopy"},
		{name: "nothing", in: &ProtoInput{Settings: DefaultProtoSettings()}, want: "none"},

		{name: "RNDV_THRESH=0", in: tcpInput(set(func(s *ProtoSettings) { s.RndvThresh = 0 })),
			want: "rndv/am..~ rndv/put/zcopy"},
		{name: "RNDV_THRESH=0, synchronous", in: tcpInput(set(func(s *ProtoSettings) { s.RndvThresh = 0 })), sync: true,
			want: "rndv/am..~ rndv/put/zcopy"},
		{name: "RNDV_THRESH=1000", in: tcpInput(set(func(s *ProtoSettings) { s.RndvThresh = 1000 })),
			want: "egr/short..999 rndv/am..~ rndv/put/zcopy"},
		{name: "RNDV_THRESH=1000, early completion", in: tcpInput(set(func(s *ProtoSettings) { s.RndvThresh = 1000 })), mode: SendFast,
			want: "egr/short..999 rndv/am..~ rndv/put/zcopy"},
		{name: "RNDV_THRESH=inf", in: tcpInput(set(func(s *ProtoSettings) { s.RndvThresh = ThreshInf })),
			want: "egr/short..~ egr/single/zcopy..65528 egr/multi/zcopy"},
		{name: "RNDV_SEND_NBR_THRESH=inf", in: tcpInput(set(func(s *ProtoSettings) { s.RndvFast = ThreshInf })), mode: SendFast,
			want: "egr/short..~ egr/single/zcopy..65528 egr/multi/zcopy"},
		{name: "RNDV_SCHEME=am", in: tcpInput(set(func(s *ProtoSettings) { s.RndvScheme = RndvSchemeAM })),
			want: "egr/short..~ egr/single/zcopy..65528 egr/multi/zcopy..~ rndv/am"},
		{name: "RNDV_SCHEME=put_zcopy, RNDV_THRESH=0", in: tcpInput(set(func(s *ProtoSettings) { s.RndvScheme, s.RndvThresh = RndvSchemePut, 0 })),
			want: "rndv/put/zcopy"},
		{name: "RNDV_SCHEME=put_zcopy without writing", in: tcpInput(noPut, set(func(s *ProtoSettings) { s.RndvScheme, s.RndvThresh = RndvSchemePut, 0 })),
			want: "rndv/am"},

		{name: "ZCOPY_THRESH=0", in: tcpInput(set(func(s *ProtoSettings) { s.ZcopyThresh = 0 })),
			want: "egr/single/zcopy..65528 egr/multi/zcopy..~ rndv/put/zcopy"},
		{name: "ZCOPY_THRESH=0, generic", in: tcpInput(set(func(s *ProtoSettings) { s.ZcopyThresh = 0 })), class: DataGeneric,
			want: "egr/single/bcopy..8184 egr/multi/bcopy..~ rndv/am"},
		{name: "ZCOPY_THRESH=inf", in: tcpInput(set(func(s *ProtoSettings) { s.ZcopyThresh = ThreshInf })),
			want: "egr/short..8184 egr/multi/bcopy..65528 rndv/put/zcopy"},
		{name: "ZCOPY_THRESH=4096", in: tcpInput(set(func(s *ProtoSettings) { s.ZcopyThresh = 4096 })),
			want: "egr/short..4095 egr/single/zcopy..65528 egr/multi/zcopy..~ rndv/put/zcopy"},
		{name: "BCOPY_THRESH=0", in: tcpInput(set(func(s *ProtoSettings) { s.BcopyThresh = 0 })),
			want: "egr/single/bcopy..~ egr/single/zcopy..65528 egr/multi/zcopy..~ rndv/put/zcopy"},
		{name: "BCOPY_THRESH=100", in: tcpInput(set(func(s *ProtoSettings) { s.BcopyThresh = 100 })),
			want: "egr/short..99 egr/single/bcopy..~ egr/single/zcopy..65528 egr/multi/zcopy..~ rndv/put/zcopy"},
		{name: "ZCOPY_THRESH=100 RNDV_THRESH=50", in: tcpInput(set(func(s *ProtoSettings) { s.ZcopyThresh, s.RndvThresh = 100, 50 })),
			want: "egr/short..49 rndv/am..~ rndv/put/zcopy"},
		{name: "all thresholds inf", in: tcpInput(set(func(s *ProtoSettings) { s.BcopyThresh, s.ZcopyThresh, s.RndvThresh = ThreshInf, ThreshInf, ThreshInf })), sync: true,
			want: "egr/single/bcopy..~ egr/single/zcopy..65512 egr/multi/zcopy..~ rndv/put/zcopy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tables := tagTables(tc.in, tc.sync)
			info := tables.Explain(tc.class, tc.mode)
			if got := ranges(info); !sameRanges(got, tc.want) {
				t.Errorf("\n got %s\nwant %s\n%s", got, tc.want, info.String())
			}
			table := tables.Table(tc.class, tc.mode)
			for _, r := range info.Ranges {
				for _, n := range []int{r.Min, r.Max} {
					if got := table.Lookup(n); got != r.Proto {
						t.Errorf("%d bytes: %v, want %v", n, got, r.Proto)
					}
				}
			}
		})
	}
}

// TestModelBounds checks that the protocols change at lengths within the ranges that the cost model
// was made for.
func TestModelBounds(t *testing.T) {
	last := func(in *ProtoInput, class DataClass, p Protocol) int {
		for _, r := range tagTables(in, false).Explain(class, 0).Ranges {
			if r.Proto == p {
				return r.Max + 1
			}
		}
		t.Fatalf("no %v", p)
		return 0
	}
	for _, tc := range []struct {
		name   string
		at     int
		lo, hi int
	}{
		{"tcp, from copying to gathering", last(tcpInput(), DataContig, ProtoEagerShort), 1 << 10, 4 << 10},
		{"tcp, from eager to written", last(tcpInput(), DataContig, ProtoEagerMultiZcopy), 64 << 10, 256 << 10},
		{"tcp, from eager to messages", last(tcpInput(), DataGeneric, ProtoEagerMultiBcopy), 256 << 10, 1 << 20},
		{"posix, from eager to messages", last(posixInput(), DataContig, ProtoEagerMultiBcopy), 256 << 10, 1 << 20},
	} {
		if tc.at < tc.lo || tc.at > tc.hi {
			t.Errorf("%s: at %d, outside %d..%d", tc.name, tc.at, tc.lo, tc.hi)
		}
	}
}

// TestSmallStreamsStayEager checks that many messages of up to 64 KiB in a row are sent eagerly. C
// UCX 1.22.0 starts a rendezvous over tcp from 1863 bytes if the sender announces more messages,
// and loses most of its bandwidth at 4 KiB.
func TestSmallStreamsStayEager(t *testing.T) {
	tables := tagTables(tcpInput(), false)
	for _, mode := range []SendMode{0, SendFast, SendMulti, SendFast | SendMulti} {
		for n := 0; n <= 64<<10; n += 512 {
			if p := tables.Table(DataContig, mode).Lookup(n); p.Rendezvous() {
				t.Fatalf("%v%v: %d bytes by %v", mode, DataContig, n, p)
			}
		}
	}
}

func TestMaxShort(t *testing.T) {
	if n := tagTables(tcpInput(), false).Table(DataContig, SendMulti).MaxShort(); n != 8184 {
		t.Errorf("%d, want 8184", n)
	}
	if n := tagTables(tcpInput(), true).Table(DataContig, 0).MaxShort(); n != -1 {
		t.Errorf("synchronous: %d, want none", n)
	}
	if n := new(Table).MaxShort(); n != -1 {
		t.Errorf("zero table: %d, want none", n)
	}
	if p := new(Table).Lookup(1); p != ProtoNone {
		t.Errorf("zero table: %v", p)
	}
}

// TestTableFull checks that a table with too many ranges uses the protocol of the longest messages
// for the rest, and writes nothing past its end.
func TestTableFull(t *testing.T) {
	c := choice{thresholds: noThresholds}
	const n = maxRanges + 4
	for i := range n {
		p := ProtoEagerShort + Protocol(i%2)
		c.options = append(c.options, option{proto: p, max: 10*i + 9, cost: uct.Linear{C: float64(i)}})
	}
	c.options[n-1].proto, c.options[n-1].max = ProtoRndvPut, math.MaxInt
	table := c.table()
	for length, want := range map[int]Protocol{
		0: ProtoEagerShort, 9: ProtoEagerShort, 10: ProtoEagerBcopy, 10*maxRanges - 11: ProtoEagerShort,
		10*maxRanges - 10: ProtoRndvPut, math.MaxInt: ProtoRndvPut,
	} {
		if got := table.Lookup(length); got != want {
			t.Errorf("%d bytes: %v, want %v", length, got, want)
		}
	}
	if info := c.explain(""); len(info.Ranges) != n {
		t.Errorf("%d ranges explained, want %d", len(info.Ranges), n)
	}
}

// TestManyCuts: more cuts than have room reserved are as good as few. Each option is the cheapest for
// some lengths, and the costs of each pair are equal at another length.
func TestManyCuts(t *testing.T) {
	c := choice{thresholds: noThresholds}
	for i := range 14 {
		c.options = append(c.options, option{proto: Protocol(1 + i), max: math.MaxInt, cost: uct.Linear{C: float64(1000 * i * i), M: 1 / float64(1+i)}})
	}
	if n := len(c.cutPoints(nil)); n <= maxCuts {
		t.Fatalf("%d cuts, room for %d", n, maxCuts)
	}
	table := c.table()
	for length := 1; length < 1<<30; length += 1 + length/8 {
		best := slices.MinFunc(c.options, func(a, b option) int { return cmp.Compare(a.cost.At(float64(length)), b.cost.At(float64(length))) })
		if got := table.Lookup(length); got != best.proto {
			t.Errorf("%d bytes: %v, want %v", length, got, best.proto)
		}
	}
}

// drawFloat draws times and bandwidths, including values that a careless or hostile peer may send.
func drawFloat(t *rapid.T, name string) float64 {
	return rapid.OneOf(
		rapid.Float64Range(0, 1e-3),
		rapid.Float64Range(1, 1e12),
		rapid.SampledFrom([]float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64}),
	).Draw(t, name)
}

func drawLane(t *rapid.T, name string) LanePerf {
	size := rapid.OneOf(rapid.IntRange(-1, 1<<20), rapid.SampledFrom([]int{0, 7, 8, 9, 24, 25, 40, math.MaxInt, math.MinInt}))
	return LanePerf{
		Name:     name,
		MaxShort: size.Draw(t, "short"), MaxBcopy: size.Draw(t, "bcopy"), MaxZcopy: size.Draw(t, "zcopy"),
		PutZcopy: size.Draw(t, "put"), SegSize: size.Draw(t, "seg"),
		SendOverhead: drawFloat(t, "send"), RecvOverhead: drawFloat(t, "recv"), CopyOverhead: drawFloat(t, "copy"),
		Latency: drawFloat(t, "latency"), Bandwidth: drawFloat(t, "bandwidth"),
		RegCost: uct.Linear{C: drawFloat(t, "reg c"), M: drawFloat(t, "reg m")},
		Batches: rapid.Bool().Draw(t, "batches"),
	}
}

func drawInput(t *rapid.T) *ProtoInput {
	thresh := rapid.OneOf(
		rapid.SampledFrom([]Threshold{ThreshAuto, ThreshInf, 0}),
		rapid.Custom(func(t *rapid.T) Threshold { return Threshold(rapid.IntRange(0, 1<<22).Draw(t, "n")) }),
	)
	in := &ProtoInput{
		AM: drawLane(t, "am"),
		Settings: ProtoSettings{
			BcopyThresh: thresh.Draw(t, "bcopy thresh"), ZcopyThresh: thresh.Draw(t, "zcopy thresh"),
			RndvThresh: thresh.Draw(t, "rndv thresh"), RndvFast: thresh.Draw(t, "nbr thresh"),
			RndvScheme: RndvScheme(rapid.IntRange(0, 2).Draw(t, "scheme")),
			CopyBW:     drawFloat(t, "copy bandwidth"),
		},
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "put lanes") {
		in.Put = append(in.Put, drawLane(t, string(rune('a'+i))))
	}
	for range rapid.IntRange(0, 2).Draw(t, "mapping interfaces") {
		in.Map = append(in.Map, drawLane(t, "m"))
	}
	return in
}

// checkCovers checks that the ranges follow each other from 0 to MaxInt, and that the compact table
// agrees with them.
func checkCovers(t *rapid.T, info TableInfo, table *Table) {
	if len(info.Ranges) > maxRanges {
		t.Fatalf("%d ranges, room for %d\n%s", len(info.Ranges), maxRanges, info.String())
	}
	next := 0
	for i, r := range info.Ranges {
		if r.Min != next || r.Max < r.Min {
			t.Fatalf("range %d is %d..%d, must start at %d", i, r.Min, r.Max, next)
		}
		next = r.Max + 1
		for _, n := range []int{r.Min, r.Min + (r.Max-r.Min)/2, r.Max} {
			if got := table.Lookup(n); got != r.Proto {
				t.Fatalf("%d bytes: table says %v, reasons say %v", n, got, r.Proto)
			}
		}
	}
	if last := info.Ranges[len(info.Ranges)-1]; last.Max != math.MaxInt {
		t.Fatalf("ends at %d", last.Max)
	}
	if len(info.Lines("owner")) != len(info.Ranges)+7 {
		t.Fatalf("%d lines for %d ranges", len(info.Lines("owner")), len(info.Ranges))
	}
	_ = info.String()
}

// TestTablesComplete checks that for any attributes and settings every length has a protocol that
// can carry it, if any protocol can.
func TestTablesComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		plain, acked, rndv := tagTables(in, false), tagTables(in, true), NewRndvTables(in)
		for class := range numDataClasses {
			for mode := range SendMode(numSendModes) {
				for sync, tag := range map[bool]*MessageTables{false: plain, true: acked} {
					info, table := tag.Explain(class, mode), tag.Table(class, mode)
					checkCovers(t, info, table)
					for _, r := range info.Ranges {
						checkCarries(t, in, sync, class, r)
					}
				}
			}
			for offer := range Offer(numOffers) {
				checkCovers(t, rndv.ExplainAsk(class, offer), rndv.Ask(class, offer))
			}
			for _, address := range []bool{false, true} {
				checkCovers(t, rndv.ExplainAnswer(class, address), rndv.Answer(class, address))
			}
		}
	})
}

func checkCarries(t *rapid.T, in *ProtoInput, sync bool, class DataClass, r RangeInfo) {
	l := in.AM.sane(in.Settings.CopyBW)
	header := EagerOnlySize
	if sync {
		header = EagerSyncOnlySize
	}
	limit, ok := math.MaxInt, true
	switch r.Proto {
	case ProtoEagerShort:
		limit, ok = l.short-header, class.contig() && !sync
	case ProtoEagerBcopy:
		limit = l.bcopy - header
	case ProtoEagerZcopy:
		limit, ok = l.zcopy-header, class != DataGeneric
	case ProtoEagerMultiBcopy:
		ok = l.bcopy > EagerFirstSize
	case ProtoEagerMultiZcopy:
		ok = l.zcopy > EagerFirstSize && class != DataGeneric
	case ProtoRndvPut:
		ok = class != DataGeneric && len(in.Put) > 0 && in.Settings.RndvScheme != RndvSchemeAM
	case ProtoRndvPtr:
		ok = class == DataMapped && len(in.Map) > 0 && in.Settings.RndvScheme != RndvSchemeAM
	case ProtoNone:
		ok = l.bcopy <= EagerSyncFirstSize // otherwise fragments can carry any length
	}
	if !ok || r.Max > limit {
		t.Fatalf("%v for %d..%d, limit %d, sync %v, %v", r.Proto, r.Min, r.Max, limit, sync, class)
	}
}

// TestLookupNoAllocs checks that a lookup allocates nothing.
func TestLookupNoAllocs(t *testing.T) {
	table := tagTables(tcpInput(), false).Table(DataContig, 0)
	var sink Protocol
	checkNoAllocs(t, "lookup", func() {
		for n := 0; n < 1<<20; n += 4096 {
			sink = table.Lookup(n)
		}
	})
	_ = sink
}

func BenchmarkLookup(b *testing.B) {
	table := tagTables(tcpInput(), false).Table(DataContig, 0)
	var sink Protocol
	for i := range b.N {
		sink = table.Lookup(i & 0xFFFFF)
	}
	_ = sink
}

// TestTableLines compares with what ucx_info -e of C UCX 1.22.0 prints with
// UCX_TLS=tcp UCX_NET_DEVICES=lo, and also UCX_RNDV_THRESH=inf.
func TestTableLines(t *testing.T) {
	short := RangeInfo{Max: 8184, Proto: ProtoEagerShort, Config: "tcp/lo"}
	multi := RangeInfo{Min: 8185, Max: 262143, Proto: ProtoEagerMultiBcopy, Config: "tcp/lo"}
	rndv := RangeInfo{Min: 256 << 10, Max: math.MaxInt, Proto: ProtoRndvAM, Config: "tcp/lo"}
	info := TableInfo{
		Title:  "tagged message by ucp_tag_send*(fast-completion) from host memory",
		Ranges: []RangeInfo{short, multi, rndv},
	}
	check := func(want string) {
		t.Helper()
		if got := strings.Join(info.Lines("ucx_info self cfg#0"), "\n"); got != strings.TrimSpace(want) {
			t.Errorf("got\n%s\nwant%s", got, want)
		}
	}
	check(`
+--------------+--------------------------------------------+--------+
| ucx_info self cfg#0                                                |
| tagged message by ucp_tag_send*(fast-completion) from host memory  |
+--------------+--------------------------------------------+--------+
|    Range     |                Description                 | Config |
+--------------+--------------------------------------------+--------+
|      0..8184 | eager short                                | tcp/lo |
| 8185..262143 | multi-frag eager copy-in copy-out          | tcp/lo |
|    256K..inf | (?) rendezvous fragmented copy-in copy-out | tcp/lo |
+--------------+--------------------------------------------+--------+
`)
	multi.Max = math.MaxInt
	info.Ranges = []RangeInfo{short, multi}
	check(`
+-----------+-----------------------------------+-------------------+
| ucx_info self cfg#0                                               |
| tagged message by ucp_tag_send*(fast-completion) from host memory |
+-----------+-----------------------------------+-------------------+
|   Range   |            Description            |      Config       |
+-----------+-----------------------------------+-------------------+
|   0..8184 | eager short                       | tcp/lo            |
| 8185..inf | multi-frag eager copy-in copy-out | tcp/lo            |
+-----------+-----------------------------------+-------------------+
`)
}

func TestTitles(t *testing.T) {
	tag, sync, rndv := tagTables(tcpInput(), false), tagTables(tcpInput(), true), NewRndvTables(tcpInput())
	for _, tc := range []struct{ got, want string }{
		{tag.Explain(DataContig, 0).Title, "tagged message by ucp_tag_send* from host memory"},
		{tag.Explain(DataIOV, SendFast|SendMulti).Title, "tagged message by ucp_tag_send*(fast-completion|multi) from iov host memory"},
		{sync.Explain(DataGeneric, SendFast).Title, "synchronous tagged message by ucp_tag_send_sync*(fast-completion) from generic host memory"},
		{rndv.ExplainAsk(DataContig, OfferAddress).Title, "rendezvous data fetch into host memory from host"},
		{rndv.ExplainAsk(DataContig, OfferKey).Title, "rendezvous data fetch into host memory from host memory that is mapped"},
		{tag.Explain(DataMapped, 0).Title, "tagged message by ucp_tag_send* from allocated host memory"},
		{rndv.ExplainAnswer(DataContig, true).Title, "rendezvous data send from host memory to host"},
		{rndv.ExplainAnswer(DataIOV, false).Title, "rendezvous data send from iov host memory"},
	} {
		if tc.got != tc.want {
			t.Errorf("%q, want %q", tc.got, tc.want)
		}
	}
}

func TestRangeText(t *testing.T) {
	for _, tc := range []struct {
		lo, hi int
		want   string
	}{
		{0, 0, "0"}, {0, 92, "0..92"}, {8185, 262143, "8185..262143"}, {256 << 10, math.MaxInt, "256K..inf"}, {1 << 20, 1 << 30, "1M..1G"},
	} {
		if got := rangeText(tc.lo, tc.hi); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

// TestExplain checks that the reasons name what decided the choice.
func TestExplain(t *testing.T) {
	in := tcpInput(func(in *ProtoInput) { in.Settings.RndvThresh = 100000 })
	text := tagTables(in, false).Explain(DataContig, 0)
	for _, want := range []string{
		": egr/short on tcp/lo",
		"100000..inf: rndv/put/zcopy on tcp/lo",
		"by UCX_RNDV_THRESH",
		"not egr/multi/zcopy: UCX_RNDV_THRESH is reached",
		"not rndv/am: below UCX_RNDV_THRESH",
		"not egr/short: limit 8184 bytes",
		"not egr/single/bcopy: slower",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestMaxCopied(t *testing.T) {
	for _, tc := range []struct {
		table Table
		want  int
	}{
		{Table{}, -1},
		{Table{upTo: [maxRanges]int{100, math.MaxInt}, proto: [maxRanges]Protocol{ProtoEagerShort, ProtoEagerMultiBcopy}}, 100},
		{Table{upTo: [maxRanges]int{100, 8000, math.MaxInt}, proto: [maxRanges]Protocol{ProtoEagerShort, ProtoEagerBcopy, ProtoEagerMultiZcopy}}, 8000},
		{Table{upTo: [maxRanges]int{100, math.MaxInt}, proto: [maxRanges]Protocol{ProtoEagerZcopy, ProtoEagerBcopy}}, -1},
	} {
		if got := tc.table.MaxCopied(); got != tc.want {
			t.Errorf("MaxCopied of %v = %d, want %d", tc.table, got, tc.want)
		}
	}
}
