//go:build linux

package interop

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

var rounds = flag.Int("rounds", 0, "TestRatio: rounds to measure; 0 skips it")

type ratioCase struct {
	name       string
	tls        string
	test       string
	size       int
	iterations int
	measure    measure
	target     string // the ratio to reach

	// For some cases. With against, the reference is also the Go tool, with its own options.
	threads   int
	options   []string
	against   bool
	reference []string // options
	oneCPU    bool     // both sides on the same CPU
	crowd     int      // goroutines of the program crowd, in place of a test of the tool
	connects  bool     // a new process for each connection, in place of a test
	than      *measure // measure of the reference, if different
}

// ratioCases are the cases. Lower latency is better; of the other measures, higher is.
var ratioCases = []ratioCase{
	{name: "tcp tag_lat 8 B", tls: "tcp", test: "tag_lat", size: 8, iterations: 20000, measure: latency, target: "≤ 0.90"},
	{name: "tcp tag_bw 8 B", tls: "tcp", test: "tag_bw", size: 8, iterations: 200000, measure: rate, target: "≥ 4.00"},
	{name: "tcp tag_bw 4 KiB", tls: "tcp", test: "tag_bw", size: 4096, iterations: 50000, measure: bandwidth, target: "≥ 5.00"},
	{name: "tcp tag_bw 1 MiB", tls: "tcp", test: "tag_bw", size: 1 << 20, iterations: 1000, measure: bandwidth, target: "≥ 1.00"},
	{name: "self tag_lat 8 B", tls: "self", test: "tag_lat", size: 8, iterations: 2000000, measure: latency, target: "≤ 1.20"},
	{name: "posix tag_lat 8 B", tls: "posix", test: "tag_lat", size: 8, iterations: 500000, measure: latency, target: "≤ 0.90"},
	{name: "posix tag_bw 8 B", tls: "posix", test: "tag_bw", size: 8, iterations: 2000000, measure: rate, target: "≥ 1.20"},
	{name: "posix tag_bw 4 KiB", tls: "posix", test: "tag_bw", size: 4096, iterations: 200000, measure: bandwidth, target: "≥ 1.00"},
	{name: "posix tag_bw 64 KiB", tls: "posix", test: "tag_bw", size: 64 << 10, iterations: 20000, measure: bandwidth, target: "≥ 1.00"},
	{name: "posix tag_bw 1 MiB", tls: "posix", test: "tag_bw", size: 1 << 20, iterations: 1000, measure: bandwidth, target: "≥ 1.00"},
	{name: "posix tag_bw 16 MiB", tls: "posix", test: "tag_bw", size: 16 << 20, iterations: 60, measure: bandwidth, target: "≥ 1.00"},
	{name: "cma tag_lat 8 B", tls: "posix,cma", test: "tag_lat", size: 8, iterations: 500000, measure: latency, target: "≤ 0.90"},
	{name: "cma tag_bw 8 B", tls: "posix,cma", test: "tag_bw", size: 8, iterations: 2000000, measure: rate, target: "≥ 1.20"},
	{name: "cma tag_bw 4 KiB", tls: "posix,cma", test: "tag_bw", size: 4096, iterations: 200000, measure: bandwidth, target: "≥ 1.00"},
	{name: "cma tag_bw 64 KiB", tls: "posix,cma", test: "tag_bw", size: 64 << 10, iterations: 20000, measure: bandwidth, target: "≥ 1.00"},
	{name: "cma tag_bw 1 MiB", tls: "posix,cma", test: "tag_bw", size: 1 << 20, iterations: 1000, measure: bandwidth, target: "≥ 1.00"},
	{name: "cma tag_bw 16 MiB", tls: "posix,cma", test: "tag_bw", size: 16 << 20, iterations: 60, measure: bandwidth, target: "≥ 1.00"},
	{name: "posix put_lat 8 B", tls: "posix", test: "ucp_put_lat", size: 8, iterations: 500000, measure: latency},
	{name: "posix put_bw 1 MiB", tls: "posix", test: "ucp_put_bw", size: 1 << 20, iterations: 5000, measure: bandwidth, target: "≥ 1.00"},
	{name: "posix get 1 MiB", tls: "posix", test: "ucp_get", size: 1 << 20, iterations: 5000, measure: bandwidth, target: "≥ 1.00"},
	{name: "posix fadd 8 B", tls: "posix", test: "ucp_fadd", size: 8, iterations: 1000000, measure: opRate, target: "≥ 1.20"},
	{name: "tcp put_bw 1 MiB", tls: "tcp", test: "ucp_put_bw", size: 1 << 20, iterations: 1000, measure: bandwidth},
	{name: "tcp get 1 MiB", tls: "tcp", test: "ucp_get", size: 1 << 20, iterations: 1000, measure: bandwidth},
	{name: "uct am_lat 8 B", tls: uctPosix, test: "am_lat", size: 8, iterations: 500000, measure: latency, target: "≤ 1.05"},

	// Active messages and streams.
	{name: "posix am_lat 8 B", tls: "posix", test: "ucp_am_lat", size: 8, iterations: 500000, measure: latency, target: "≤ 1.00"},
	{name: "posix am_bw 8 B", tls: "posix", test: "ucp_am_bw", size: 8, iterations: 2000000, measure: rate, target: "≥ 1.00"},
	{name: "posix am_bw 4 KiB", tls: "posix", test: "ucp_am_bw", size: 4096, iterations: 200000, measure: bandwidth, target: "≥ 1.00"},
	{name: "posix am_bw 64 KiB", tls: "posix", test: "ucp_am_bw", size: 64 << 10, iterations: 20000, measure: bandwidth, target: "≥ 1.00"},
	{name: "posix am_bw 1 MiB", tls: "posix", test: "ucp_am_bw", size: 1 << 20, iterations: 1000, measure: bandwidth, target: "≥ 1.00"},
	{name: "posix stream_lat 8 B", tls: "posix", test: "stream_lat", size: 8, iterations: 500000, measure: latency, target: "≤ 1.00"},
	{name: "posix stream_bw 64 KiB", tls: "posix", test: "stream_bw", size: 64 << 10, iterations: 20000, measure: bandwidth, target: "≥ 1.00"},
	{name: "posix stream_bw 1 MiB", tls: "posix", test: "stream_bw", size: 1 << 20, iterations: 1000, measure: bandwidth, target: "≥ 1.00"},
	{name: "tcp am_lat 8 B", tls: "tcp", test: "ucp_am_lat", size: 8, iterations: 20000, measure: latency, target: "≤ 1.00"},
	{name: "tcp am_bw 8 B", tls: "tcp", test: "ucp_am_bw", size: 8, iterations: 200000, measure: rate, target: "≥ 1.00"},
	{name: "tcp am_bw 4 KiB", tls: "tcp", test: "ucp_am_bw", size: 4096, iterations: 50000, measure: bandwidth, target: "≥ 1.00"},
	{name: "tcp am_bw 64 KiB", tls: "tcp", test: "ucp_am_bw", size: 64 << 10, iterations: 10000, measure: bandwidth, target: "≥ 1.00"},
	{name: "tcp am_bw 1 MiB", tls: "tcp", test: "ucp_am_bw", size: 1 << 20, iterations: 1000, measure: bandwidth, target: "≥ 1.00"},
	{name: "tcp stream_lat 8 B", tls: "tcp", test: "stream_lat", size: 8, iterations: 20000, measure: latency, target: "≤ 1.00"},
	{name: "tcp stream_bw 64 KiB", tls: "tcp", test: "stream_bw", size: 64 << 10, iterations: 10000, measure: bandwidth, target: "≥ 2.50"},
	{name: "tcp stream_bw 1 MiB", tls: "tcp", test: "stream_bw", size: 1 << 20, iterations: 1000, measure: bandwidth, target: "≥ 2.50"},
	{name: "tcp connect", tls: "tcp", connects: true, iterations: 20, measure: latency, target: "≤ 0.50"},

	// One worker for all goroutines of a side, against one C worker for each thread; and the cost
	// of mode multi for a single goroutine.
	{name: "2 goroutines 8 B", tls: "posix", test: "tag_bw", size: 8, iterations: 500000, measure: rate, target: "≥ 2.00",
		threads: 2, options: []string{"-M", "multi", "--shared"}, reference: []string{"-M", "multi"}},
	{name: "4 goroutines 8 B", tls: "posix", test: "tag_bw", size: 8, iterations: 200000, measure: rate, target: "≥ 2.00",
		threads: 4, options: []string{"-M", "multi", "--shared"}, reference: []string{"-M", "multi"}},
	{name: "8 goroutines 8 B", tls: "posix", test: "tag_bw", size: 8, iterations: 100000, measure: rate, target: "≥ 2.00",
		threads: 8, options: []string{"-M", "multi", "--shared"}, reference: []string{"-M", "multi"}},
	{name: "multi tag_lat 8 B", tls: "posix", test: "tag_lat", size: 8, iterations: 500000, measure: latency, target: "≤ 1.10",
		against: true, options: []string{"-M", "multi"}, reference: []string{"-M", "single"}},
	{name: "multi tag_bw 8 B", tls: "posix", test: "tag_bw", size: 8, iterations: 2000000, measure: rate, target: "≥ 0.90",
		against: true, options: []string{"-M", "multi"}, reference: []string{"-M", "single"}},

	// Blocking calls, against polling with a CPU for each side, and against sleeping with both
	// sides on one CPU.
	{name: "waits tag_lat 8 B", tls: "posix", test: "tag_lat", size: 8, iterations: 200000, measure: latency, target: "≤ 1.50",
		against: true, options: []string{"-E", "block"}, reference: []string{"-E", "poll"}},
	{name: "waits, 1 CPU", tls: "posix", test: "tag_lat", size: 8, iterations: 20000, measure: latency, target: "≤ 2.00",
		options: []string{"-E", "block"}, reference: []string{"-E", "sleep"}, oneCPU: true},
	{name: "1 request", tls: "posix", size: 64, iterations: 30000, crowd: 1, measure: rate, target: "≥ 5.00",
		against: true, options: overUCP, reference: overUnix},
	{name: "1 request, tcp", tls: "tcp", size: 64, iterations: 30000, crowd: 1, measure: rate, target: "≥ 1.00",
		against: true, options: overUCP, reference: overTCP},
	{name: "1 request, busy", tls: "posix", size: 64, iterations: 2000, crowd: 1, measure: rate, target: "≥ 1.00",
		against: true, options: busy(overUCP), reference: busy(overTCP)},
	{name: "1 request, tcp busy", tls: "tcp", size: 64, iterations: 2000, crowd: 1, measure: rate, target: "≥ 1.00",
		against: true, options: busy(overUCP), reference: busy(overTCP)},
	{name: "64 requests, tcp", tls: "tcp", size: 64, iterations: 2000, crowd: 64, measure: rate, target: "≥ 1.00",
		against: true, options: overUCP, reference: overTCP},
	{name: "64 requests, busy", tls: "posix", size: 64, iterations: 300, crowd: 64, measure: rate, target: "≥ 1.00",
		against: true, options: busy(overUCP), reference: busy(overUnix)},
	{name: "64 × 1 MiB", tls: "posix,cma", size: 1 << 20, iterations: 10, crowd: 64, measure: rate, target: "≥ 1.50",
		against: true, options: overUCP, reference: overUnix},
	{name: "64 × 1 MiB, tcp", tls: "tcp", size: 1 << 20, iterations: 10, crowd: 64, measure: rate, target: "≥ 1.00",
		against: true, options: overUCP, reference: overTCP},
	{name: "64 requests", tls: "posix", size: 64, iterations: 2000, crowd: 64, measure: rate, target: "≥ 3.00",
		against: true, options: overUCP, reference: overUnix},
	{name: "64 requests, p99", tls: "posix", size: 64, iterations: 2000, crowd: 64, measure: slowest, than: &latency, target: "≤ 2.00",
		against: true, options: overUCP, reference: overUCP},
}

// Options of the program crowd.
var (
	overUCP  = []string{"-over", "ucp"}
	overUnix = []string{"-over", "unix"}
	overTCP  = []string{"-over", "tcp"}
)

// busy returns options with which other processes use the processors meanwhile, eight for each.
func busy(options []string) []string { return append(slices.Clone(options), "-busy", "16") }

// measure is a value in the output of the tool.
type measure struct {
	unit  string
	value func(perfResult) float64
}

var (
	latency = measure{"µs", func(r perfResult) float64 {
		if r.typical < 1 {
			return r.mean // the median has a resolution of 5 ns; several threads have none
		}
		return r.typical
	}}
	bandwidth = measure{"MiB/s", func(r perfResult) float64 { return r.bandwidth }}
	rate      = measure{"k msg/s", func(r perfResult) float64 { return r.rate / 1000 }}
	opRate    = measure{"k op/s", rate.value}
	slowest   = measure{"µs", func(r perfResult) float64 { return r.tail }}
)

// uctPosix stands for tests of the transport alone.
const uctPosix = "posix, no UCP"

var ratios = flag.String("ratios", "", "TestRatio: regular expression, only cases whose names match")

// TestRatio measures Go's ucx_perftest and C's alternately, each between two processes of its kind
// on this machine, and prints medians, quartiles and ratios, with the change since the latest
// record. It asserts nothing about them. The reference is the first installation of CPEERS, or the
// distribution's.
func TestRatio(t *testing.T) {
	if *rounds == 0 {
		t.Skip("asked for by -rounds")
	}
	wanted, err := regexp.Compile(*ratios)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := buildC(t)
	reference := c[min(1, len(c)-1)]
	reference.example, _ = exampleOf(t, prefixes()[min(1, len(c)-1)], dir)
	ours := buildGo(t)
	if _, err := exec.LookPath("taskset"); err != nil {
		needtest.Tool(t, "taskset")
	}
	where := newPlace()
	defer where.close()
	records, err := readRecords(os.DirFS(recordDir))
	if err != nil {
		t.Fatal(err)
	}
	this := thisRun(reference.name, *rounds)
	var measured []measurement

	fmt.Printf("Go against %s, %d rounds: median (quartiles); line: round trip of a cache line\n", reference.name, *rounds)
	fmt.Printf("%-19s %-8s %30s %30s %8s  %-8s %-7s %s\n", "", "", reference.name, ours.name, "Go/C", "target", "line", "change")
	for _, k := range ratioCases {
		if !wanted.MatchString(k.name) {
			continue
		}
		if k.connects && reference.example == "" {
			fmt.Printf("%-19s the reference comes without the example ucp_client_server\n", k.name)
			continue
		}
		var samples [2][]float64
		other := k.other(reference, ours)
		for round := range *rounds {
			for turn := range samples {
				i := (turn + round) % 2 // neither is always first
				p, options, m := other, k.reference, k.measure
				if k.than != nil {
					m = *k.than
				}
				if i == 1 {
					p, options, m = ours, k.options, k.measure
				}
				got, err := k.run(where, p, options)
				if err != nil {
					t.Fatalf("%s, %s: %v", k.name, p.name, err)
				}
				samples[i] = append(samples[i], m.value(got))
			}
		}
		line, err := lineRoundTrip()
		if err != nil {
			t.Fatal(err)
		}
		r := this
		r.name, r.unit, r.line, r.reference = k.name, k.measure.unit, line, other.name
		r.c, r.ours = quantile(samples[0], 0.5), quantile(samples[1], 0.5)
		measured = append(measured, r)
		change := r.change(records)
		if k.against {
			change += ", against " + other.name
		}
		fmt.Printf("%-19s %-8s %30s %30s %8.2f  %-8s %-7v %s\n", k.name, k.measure.unit, summary(samples[0]), summary(samples[1]),
			r.ratio(), k.target, line, change)
	}
	if *record {
		name, err := keep(recordDir, measured)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("kept in", name)
	}
}

// other returns the program to compare the Go tool with: the reference, or the Go tool itself,
// named after its options.
func (k ratioCase) other(reference, ours program) program {
	if !k.against {
		return reference
	}
	ours.name += " " + strings.Join(k.reference, " ")
	return ours
}

func TestRatioNames(t *testing.T) {
	c, ours := program{name: "C 1.13.1"}, program{name: "Go", ours: true}
	for _, k := range ratioCases {
		want := c.name
		switch k.name {
		case "multi tag_lat 8 B", "multi tag_bw 8 B":
			want = "Go -M single"
		case "64 requests, p99":
			want = "Go -over ucp"
		case "1 request", "64 requests", "64 × 1 MiB":
			want = "Go -over unix"
		case "1 request, tcp", "64 requests, tcp", "64 × 1 MiB, tcp":
			want = "Go -over tcp"
		case "64 requests, busy":
			want = "Go -over unix -busy 16"
		case "1 request, busy", "1 request, tcp busy":
			want = "Go -over tcp -busy 16"
		case "waits tag_lat 8 B":
			want = "Go -E poll"
		}
		if p := k.other(c, ours); p.name != want || p.ours != (want != c.name) {
			t.Errorf("%s is compared with %s, want %s", k.name, p.name, want)
		}
	}
}

// run runs the case once, with both sides of one kind.
func (k ratioCase) run(where *place, p program, options []string) (perfResult, error) {
	r := k.perf(p, options)
	switch {
	case k.crowd > 0:
		return r.runCrowd(where)
	case k.connects:
		return r.runClients(where)
	case k.tls == "self":
		return r.runAlone(where)
	}
	return r.run(where)
}

// perf returns the run of a case.
func (k ratioCase) perf(p program, options []string) perfRun {
	env := []string{"UCX_TLS=" + k.tls}
	switch k.tls {
	case "tcp":
		env = append(env, "UCX_NET_DEVICES=lo")
	case uctPosix:
		env, options = nil, append([]string{"-d", "memory", "-x", "posix"}, options...)
	}
	if k.than != nil {
		env = append(env, "GOMAXPROCS=1") // tail latency with one CPU for each process
	}
	r := perfRun{server: p, client: p, test: k.test, size: k.size, threads: k.threads, iterations: k.iterations, warmup: k.iterations / 10,
		serverEnv: env, clientEnv: env, cpus: [2]string{"0", "1"}, options: options}
	switch {
	case k.oneCPU:
		r.cpus[1] = r.cpus[0]
	case k.crowd > 0:
		r.threads, r.cpus = k.crowd, [2]string{}
	}
	return r
}

// summary formats median and quartiles.
func summary(samples []float64) string {
	return fmt.Sprintf("%.4g (%.4g–%.4g)", quantile(samples, 0.5), quantile(samples, 0.25), quantile(samples, 0.75))
}

// quantile returns the sample at a fraction of the sorted list.
func quantile(samples []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	return s[int(math.Round(q*float64(len(s)-1)))]
}
