//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReportAsC prints what C UCX 1.22.0 printed: the first line of each capture is the command,
// and its numbers are passed to the printer. The output must be C's, byte for byte.
func TestReportAsC(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			command, want, _ := strings.Cut(string(text), "\n")
			o, err := parseOptions(strings.Fields(command)[2:])
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			out := newPrinter(o, alone{}, &b, io.Discard)
			if len(o.batches) == 0 {
				if err := adjust(&o.params); err != nil {
					t.Fatal(err)
				}
			}
			out.header(&o.params, o.batches)
			for _, line := range strings.Split(want, "\n") {
				replay(t, out, line)
			}
			if diff := cmp.Diff(want, b.String()); diff != "" {
				t.Errorf("output (-C +ours):\n%s", diff)
			}
		})
	}
}

// TestIgnoredOptions: a client warns of options that UCP tests ignore.
func TestIgnoredOptions(t *testing.T) {
	const device = "ucx_perftest: -d lo is ignored in test tag_lat: UCX_NET_DEVICES, UCX_SHM_DEVICES and UCX_SELF_DEVICES select devices\n"
	const transport = "ucx_perftest: -x tcp is ignored in test tag_lat: UCX_TLS selects transports\n"
	for _, tt := range []struct{ args, want string }{
		{"-l -t tag_lat -d lo -x tcp", device + transport}, {"-l -t tag_lat -x tcp", transport},
		{"-l -t tag_lat -d lo -x tcp -q", ""}, {"-l -t tag_lat", ""}, {"-l -t am_lat -d lo -x tcp", ""},
	} {
		o, err := parseOptions(strings.Fields(tt.args))
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		newPrinter(o, alone{}, io.Discard, &stderr).ignored(&o.params)
		if diff := cmp.Diff(tt.want, stderr.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, diff)
		}
	}
}

var (
	nameLine   = regexp.MustCompile(`^\+([a-z/]+)-+\+`)
	resultLine = regexp.MustCompile(`^(\[thread \d\]|Final:    |[a-z/]* {10})((?: +[0-9.]+){4}(?:(?: +[0-9.]+){4})?)(?:  (.*))?$`)
	csvLine    = regexp.MustCompile(`^(\[thread \d\]|(?:[a-z]+,)*)([0-9.]+(?:,[0-9.]+){3}(?:(?:,[0-9.]+){4})?)$`)
)

// replay passes the numbers of a captured line to the printer.
func replay(t *testing.T, out *printer, line string) {
	t.Helper()
	if m := nameLine.FindStringSubmatch(line); m != nil {
		out.names = strings.Split(m[1], "/")
		out.testName()
		return
	}
	m := resultLine.FindStringSubmatch(line)
	separator, info := " ", ""
	if m != nil {
		info = m[3]
	}
	if m == nil {
		m, separator = csvLine.FindStringSubmatch(line), ","
	}
	if m == nil {
		return // a line of the header
	}
	var v []float64
	for _, field := range strings.FieldsFunc(m[2], func(c rune) bool { return string(c) == separator }) {
		f, err := strconv.ParseFloat(field, 64)
		if err != nil {
			t.Fatal(err)
		}
		v = append(v, f)
	}
	var thread int
	_, notThread := fmt.Sscanf(m[1], "[thread %d]", &thread)
	if notThread != nil && (out.csv || out.final) {
		out.names = strings.FieldsFunc(m[1], func(c rune) bool { return strings.ContainsRune(" ,/", c) })
	}
	if len(v) == 4 { // for two threads, one of which has done all in the time of both
		out.result([]result{
			{iters: uint64(v[0]), latencyTotal: 2 * v[1] / usec, bandwidthTotal: v[2] * mb, rateTotal: v[3]}, {},
		})
		return
	}
	r := result{
		iters:   uint64(v[0]),
		latency: v[1] / usec, latencyMoment: v[2] / usec, latencyTotal: v[3] / usec,
		bandwidthMoment: v[4] * mb, bandwidthTotal: v[5] * mb,
		rateMoment: v[6], rateTotal: v[7],
		info: info,
	}
	if notThread == nil {
		out.line(thread, &r)
	} else {
		out.result([]result{r})
	}
}

func TestReportServer(t *testing.T) {
	var b strings.Builder
	o, err := parseOptions(strings.Fields("-t tag_bw -s 16,48"))
	if err != nil {
		t.Fatal(err)
	}
	if err := adjust(&o.params); err != nil {
		t.Fatal(err)
	}
	out := &printer{w: &b, test: true}
	out.header(&o.params, nil)
	out.testName()
	out.line(0, &result{})
	out.result([]result{{}})
	const want = `+----------------------------------------------------------------------------------------------------------+
| API:          protocol layer                                                                             |
| Test:         tag match bandwidth                                                                        |
| Data layout:  (automatic)                                                                                |
| Send memory:  host                                                                                       |
| Recv memory:  host                                                                                       |
| Message size: 64                                                                                         |
| Window size:  32                                                                                         |
+----------------------------------------------------------------------------------------------------------+
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestReportNumeric(t *testing.T) {
	var b strings.Builder
	out := &printer{w: &b, results: true, numeric: true}
	out.result([]result{{iters: 1234567, rateMoment: 999, rateTotal: 47486629.4}})
	const want = "Final:             1,234,567      0.000     0.000     0.000        0.00       0.00         999  47,486,629\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	b.Reset()
	out.result([]result{{iters: 1234567, rateTotal: 1e6}, {rateTotal: 1e6}})
	const threads = "Final:             1,234,567                         0.000                   0.00                2,000,000\n"
	if diff := cmp.Diff(threads, b.String()); diff != "" {
		t.Errorf("line of two threads (-want +got):\n%s", diff)
	}
	for in, want := range map[string]string{"": "", "1": "1", "123": "123", "1234": "1,234", "123456": "123,456", "+Inf": "+Inf"} {
		if got := grouped(in); got != want {
			t.Errorf("grouped(%q) = %q, want %q", in, got, want)
		}
	}
}
