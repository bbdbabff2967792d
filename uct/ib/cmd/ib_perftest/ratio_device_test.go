//go:build linux

package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ratios are the tests to compare with C.
var ratios = []struct {
	args   string
	column int // of the result
	best   int // of the best case
	target float64
}{
	{"write_lat -s 8 -n 1000", 4, 2, 1.1},
	{"send_lat -s 8 -n 1000", 4, 2, 1.1},
	{"read_lat -s 8 -n 1000", 4, 2, 1.1},
	{"atomic_lat -n 1000", 4, 2, 1.1},
	{"write_bw -s 65536 -n 300", 3, 2, 0.9},
}

// TestRatios compares with perftest, alternating with it: both sides ours, both sides C, and our
// client with a C server. It prints medians of the typical latency or the average bandwidth, and of
// the best latency or the peak. They are not checked, because machines are noisy. RXE_ROUNDS is the
// number of rounds.
func TestRatios(t *testing.T) {
	flags := onDevice(t)
	rounds, err := strconv.Atoi(os.Getenv("RXE_ROUNDS"))
	if err != nil {
		t.Skip("asked for by RXE_ROUNDS: scripts/bench-rxe runs this")
	}
	fmt.Printf("%-26s %21s %21s %21s %15s %15s\n%-26s %21s %21s %21s %15s %15s  target\n",
		"medians of "+strconv.Itoa(rounds), "C", "Go", "Go, server C", "Go / C", "Go, server C",
		"us, MiB/s", "typical       best", "", "", "", "/ C")
	for _, row := range ratios {
		name, _, _ := strings.Cut(row.args, " ")
		needC(t, "ib_"+name)
		var results [3][2][]float64
		for range rounds {
			for i, ours := range [][2]bool{{false, false}, {true, true}, {false, true}} {
				// The clock of C may fail: then there is no number, or no row at
				// all.
				for try := 0; ; try++ {
					server, client, err := processes(t, ours[0], ours[1], row.args+flags)
					var got []float64
					if err == nil {
						got = clientRow(client.out.String())
					}
					if len(got) > row.column && got[row.column] > 0 && !math.IsInf(got[row.column], 0) {
						results[i][0] = append(results[i][0], got[row.column])
						results[i][1] = append(results[i][1], got[row.best])
						break
					}
					if try == 5 || ours == [2]bool{true, true} {
						t.Fatalf("%v\n%v\n%v", err, server, client)
					}
				}
			}
		}
		var cells, quotients []string
		var base [2]float64
		for i := range results {
			m := [2]float64{median(results[i][0]), median(results[i][1])}
			cells = append(cells, fmt.Sprintf("%10.2f %10.2f", m[0], m[1]))
			if i == 0 {
				base = m
			} else {
				quotients = append(quotients, fmt.Sprintf("%7.2f %7.2f", m[0]/base[0], m[1]/base[1]))
			}
		}
		fmt.Printf("%-26s %s %s  %4.1f\n", row.args, strings.Join(cells, " "), strings.Join(quotients, " "), row.target)
	}
}

// clientRow returns the first row that a client has printed.
func clientRow(out string) []float64 {
	_, table, _ := strings.Cut(out, " #bytes")
	lines := strings.Split(table, "\n")
	if len(lines) < 2 {
		return nil
	}
	var row []float64
	for _, f := range strings.Fields(lines[1]) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return nil
		}
		row = append(row, v)
	}
	return row
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}
