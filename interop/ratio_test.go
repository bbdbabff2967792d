package interop

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
)

var rounds = flag.Int("rounds", 0, "TestRatio: rounds to measure; 0 skips it")

type ratioCase struct {
	name       string
	tls        string
	test       string
	size       int
	iterations int
	unit       string
	value      func(perfResult) float64
	target     string
}

// ratioCases are what is measured, with the ratio to reach. For latency less is
// better, for the others more.
var ratioCases = []ratioCase{
	{"tcp tag_lat 8 B", "tcp", "tag_lat", 8, 20000, "µs", perfResult.latency, "≤ 0.95"},
	{"tcp tag_bw 8 B", "tcp", "tag_bw", 8, 200000, "k msg/s", perfResult.thousands, "≥ 2.00"},
	{"tcp tag_bw 4 KiB", "tcp", "tag_bw", 4096, 50000, "MiB/s", perfResult.mebibytes, "≥ 1.50"},
	{"tcp tag_bw 1 MiB", "tcp", "tag_bw", 1 << 20, 1000, "MiB/s", perfResult.mebibytes, "≥ 0.95"},
	{"self tag_lat 8 B", "self", "tag_lat", 8, 2000000, "µs", perfResult.latency, "≤ 1.50"},
	{"posix tag_lat 8 B", "posix", "tag_lat", 8, 500000, "µs", perfResult.latency, "≤ 1.00"},
	{"posix tag_bw 8 B", "posix", "tag_bw", 8, 2000000, "k msg/s", perfResult.thousands, "≥ 1.00"},
	{"posix tag_bw 4 KiB", "posix", "tag_bw", 4096, 200000, "MiB/s", perfResult.mebibytes, "≥ 1.00"},
	{"posix tag_bw 64 KiB", "posix", "tag_bw", 64 << 10, 20000, "MiB/s", perfResult.mebibytes, "≥ 1.00"},
	{"posix tag_bw 1 MiB", "posix", "tag_bw", 1 << 20, 1000, "MiB/s", perfResult.mebibytes, "≥ 1.00"},
	{"posix tag_bw 16 MiB", "posix", "tag_bw", 16 << 20, 60, "MiB/s", perfResult.mebibytes, "≥ 1.00"},
	{"cma tag_lat 8 B", "posix,cma", "tag_lat", 8, 500000, "µs", perfResult.latency, "≤ 1.00"},
	{"cma tag_bw 8 B", "posix,cma", "tag_bw", 8, 2000000, "k msg/s", perfResult.thousands, "≥ 1.00"},
	{"cma tag_bw 4 KiB", "posix,cma", "tag_bw", 4096, 200000, "MiB/s", perfResult.mebibytes, "≥ 1.00"},
	{"cma tag_bw 64 KiB", "posix,cma", "tag_bw", 64 << 10, 20000, "MiB/s", perfResult.mebibytes, "≥ 1.00"},
	{"cma tag_bw 1 MiB", "posix,cma", "tag_bw", 1 << 20, 1000, "MiB/s", perfResult.mebibytes, "≥ 1.00"},
	{"cma tag_bw 16 MiB", "posix,cma", "tag_bw", 16 << 20, 60, "MiB/s", perfResult.mebibytes, "≥ 1.00"},
	{"posix put_lat 8 B", "posix", "ucp_put_lat", 8, 500000, "µs", perfResult.latency, ""},
	{"posix put_bw 1 MiB", "posix", "ucp_put_bw", 1 << 20, 5000, "MiB/s", perfResult.mebibytes, "≥ 0.95"},
	{"posix get 1 MiB", "posix", "ucp_get", 1 << 20, 5000, "MiB/s", perfResult.mebibytes, "≥ 1.00"},
	{"posix fadd 8 B", "posix", "ucp_fadd", 8, 1000000, "k op/s", perfResult.thousands, ""},
	{"tcp put_bw 1 MiB", "tcp", "ucp_put_bw", 1 << 20, 1000, "MiB/s", perfResult.mebibytes, ""},
	{"tcp get 1 MiB", "tcp", "ucp_get", 1 << 20, 1000, "MiB/s", perfResult.mebibytes, ""},
	{"uct am_lat 8 B", uctPosix, "am_lat", 8, 500000, "µs", perfResult.latency, "≤ 1.05"},
}

// uctPosix stands for tests of the transport alone.
const uctPosix = "posix, no UCP"

var ratios = flag.String("ratios", "", "TestRatio: regular expression, only cases whose names match")

func (r perfResult) latency() float64   { return r.typical }
func (r perfResult) mebibytes() float64 { return r.bandwidth }
func (r perfResult) thousands() float64 { return r.rate / 1000 }

// TestRatio measures our ucx_perftest and C's by turns, each between two
// processes of its own kind on this machine, and prints medians,
// quartiles and ratios, with what changed since the youngest record. It asserts
// nothing about them. The reference is the first installation of CPEERS, or the
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
	c := buildC(t, dir)
	reference := c[min(1, len(c)-1)]
	ours := buildTool(t, dir)
	if _, err := exec.LookPath("taskset"); err != nil {
		need(t, "taskset")
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
		var samples [2][]float64
		for round := range *rounds {
			for turn := range samples {
				i := (turn + round) % 2 // nobody is always first
				p := []program{reference, ours}[i]
				env := []string{"UCX_TLS=" + k.tls}
				var options []string
				switch k.tls {
				case "tcp":
					env = append(env, "UCX_NET_DEVICES=lo")
				case uctPosix:
					env, options = nil, []string{"-d", "memory", "-x", "posix"}
				}
				r := perfRun{server: p, client: p, test: k.test, size: k.size,
					iterations: k.iterations, warmup: k.iterations / 10, serverEnv: env, clientEnv: env, pinned: true, options: options}
				run := r.run
				if k.tls == "self" {
					run = r.runAlone
				}
				got, err := run(where)
				if err != nil {
					t.Fatalf("%s, %s: %v", k.name, p.name, err)
				}
				samples[i] = append(samples[i], k.value(got))
			}
		}
		line, err := lineRoundTrip()
		if err != nil {
			t.Fatal(err)
		}
		r := this
		r.name, r.unit, r.line = k.name, k.unit, line
		r.c, r.ours = quantile(samples[0], 0.5), quantile(samples[1], 0.5)
		measured = append(measured, r)
		fmt.Printf("%-19s %-8s %30s %30s %8.2f  %-8s %-7v %s\n", k.name, k.unit, summary(samples[0]), summary(samples[1]),
			r.ratio(), k.target, line, r.change(records))
	}
	if *record {
		name, err := keep(recordDir, measured)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("kept in", name)
	}
}

// summary prints median and quartiles.
func summary(samples []float64) string {
	return fmt.Sprintf("%.4g (%.4g–%.4g)", quantile(samples, 0.5), quantile(samples, 0.25), quantile(samples, 0.75))
}

// quantile returns the sample at a fraction of the sorted list.
func quantile(samples []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	return s[int(math.Round(q*float64(len(s)-1)))]
}
