//go:build linux

package interop

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// rdmaRatios are the cases that are compared with C over RDMA devices.
var rdmaRatios = []ratioCase{
	{name: "rc tag_lat 8 B", tls: reliable, test: "tag_lat", size: 8, iterations: 1000, measure: latency, target: "≤ 1.05"},
	{name: "rc am_lat 8 B", tls: reliable, test: "ucp_am_lat", size: 8, iterations: 1000, measure: latency, target: "≤ 1.05"},
	{name: "rc put_lat 8 B", tls: reliable, test: "ucp_put_lat", size: 8, iterations: 1000, measure: latency, target: "≤ 1.05"},
	{name: "rc get 8 B", tls: reliable, test: "ucp_get", size: 8, iterations: 1000, measure: latency, target: "≤ 1.05"},
	{name: "rc fadd 8 B", tls: reliable, test: "ucp_fadd", size: 8, iterations: 1000, measure: latency, target: "≤ 1.05"},
	{name: "rc tag_bw 4 KiB", tls: reliable, test: "tag_bw", size: 4 << 10, iterations: 1000, measure: bandwidth, target: "≥ 0.95"},
	{name: "rc tag_bw 64 KiB", tls: reliable, test: "tag_bw", size: 64 << 10, iterations: 200, measure: bandwidth, target: "≥ 0.95"},
	{name: "rc tag_bw 1 MiB", tls: reliable, test: "tag_bw", size: 1 << 20, iterations: 30, measure: bandwidth, target: "≥ 0.95"},
	{name: "ud tag_lat 8 B", tls: datagram, test: "tag_lat", size: 8, iterations: 1000, measure: latency, target: "≤ 1.05"},
	{name: "ud tag_bw 64 KiB", tls: datagram, test: "tag_bw", size: 64 << 10, iterations: 100, measure: bandwidth, target: "≥ 0.95"},
}

// Limits for a row: the table has ten, and the virtual machine runs for an hour at most.
const (
	rowTime      = 4 * time.Minute
	fewestRounds = 3
)

// TestRDMARatio measures Go's ucx_perftest and C's alternately over RDMA devices, each between two
// processes of its kind, and prints medians, quartiles and ratios, without asserting anything.
// RXE_ROUNDS sets the number of rounds, RXE_RATIOS selects cases; the reference is that of
// TestRatio. On a busy machine a row runs fewer rounds, so that the table is completed, and prints
// how many.
func TestRDMARatio(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("RXE_ROUNDS"))
	if err != nil {
		t.Skip("asked for by RXE_ROUNDS: scripts/bench-rxe runs this")
	}
	wanted, err := regexp.Compile(os.Getenv("RXE_RATIOS"))
	if err != nil {
		t.Fatal(err)
	}
	c := forRDMA(buildC(t))
	programs := [2]program{c[min(1, len(c)-1)], buildGo(t)}
	where := onMachine()
	defer where.close()
	fmt.Printf("Go against %s, %d rounds: median (quartiles)\n", programs[0].name, rounds)
	fmt.Printf("%-17s %-8s %30s %30s %8s  %s\n", "", "", programs[0].name, programs[1].name, "Go/C", "target")
	for _, k := range rdmaRatios {
		if !wanted.MatchString(k.name) {
			continue
		}
		over := rdmaRoute(t, k.tls)
		var samples [2][]float64
		start := time.Now()
	rounds:
		for round := range rounds {
			if round >= fewestRounds && time.Since(start) > rowTime {
				break
			}
			for turn := range samples {
				i := (turn + round) % 2 // neither is always first
				r := perfRun{server: programs[i], client: programs[i], test: k.test, size: k.size,
					iterations: k.iterations, warmup: k.iterations / 10, serverEnv: over.env(false), clientEnv: over.env(true)}
				got, err := r.run(where)
				if err != nil {
					t.Errorf("%s, %s: %v", k.name, programs[i].name, err)
					break rounds
				}
				samples[i] = append(samples[i], k.measure.value(got))
			}
		}
		n := min(len(samples[0]), len(samples[1]))
		if n == 0 {
			continue
		}
		fmt.Printf("%-17s %-8s %30s %30s %8.2f  %-6s", k.name, k.measure.unit, summary(samples[0]), summary(samples[1]),
			quantile(samples[1], 0.5)/quantile(samples[0], 0.5), k.target)
		if n < rounds {
			fmt.Printf("  %d rounds", n)
		}
		fmt.Println()
	}
}
