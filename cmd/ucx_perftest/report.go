//go:build linux

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
)

// printer writes headers and results in the format of C's tool (perftest_run.c), byte for byte.
type printer struct {
	w       io.Writer
	errors  io.Writer // destination of warnings
	csv     bool
	final   bool // no intermediate results
	numeric bool // group digits
	extra   bool // print the information of -X about the operation
	test    bool // print the description of the test: on the server
	results bool // print results: on the client
	names   []string

	mu sync.Mutex // held while writing a line
}

func newPrinter(o *options, g group, w, errors io.Writer) *printer {
	return &printer{
		w:       w,
		errors:  errors,
		csv:     o.csv,
		final:   o.final,
		numeric: o.numeric,
		extra:   o.params.extra,
		test:    g.index() == 0,
		results: g.loopback() || g.index() == 1,
	}
}

// ignored warns about options that a test does not use, as C's tool does (check_params in
// perftest_params.c).
func (o *printer) ignored(p *params) {
	if !o.results || p.Test.API != perfoob.UCP || p.Flags&perfoob.FlagVerbose == 0 {
		return
	}
	for _, given := range []struct{ option, value, variables string }{
		{"-d", p.Device, "UCX_NET_DEVICES, UCX_SHM_DEVICES and UCX_SELF_DEVICES select devices"},
		{"-x", p.Transport, "UCX_TLS selects transports"},
	} {
		if given.value != perfoob.None {
			complain(o.errors, fmt.Errorf("%s %s is ignored in test %s: %s", given.option, given.value, p.Test.Name, given.variables))
		}
	}
}

// header prints the description of the test and the head of the table. With batch files the test is
// not known yet.
func (o *printer) header(p *params, batches []string) {
	const line = "+----------------------------------------------------------------------------------------------------------+\n"
	t := p.Test
	if o.test && t != nil && len(batches) == 0 {
		api, data := "protocol layer", "(automatic)"
		if t.API == perfoob.UCT {
			api, data = "transport layer", p.Layout.String()
		}
		fmt.Fprint(o.w, line)
		for _, row := range []struct {
			label string
			value any
		}{
			{"API:", api}, {"Test:", t.Desc}, {"Data layout:", data}, {"Send memory:", p.SendMem},
			{"Recv memory:", p.RecvMem}, {"Message size:", p.MessageSize()}, {"Window size:", p.Window},
		} {
			fmt.Fprintf(o.w, "| %-13s %-60v                               |\n", row.label, row.value)
		}
		if t.API == perfoob.UCP && t.Command == perfoob.CmdAM {
			fmt.Fprintf(o.w, "| AM header size: %-60v                             |\n", p.UCPHeader)
		}
	}
	switch {
	case o.csv:
		if o.results {
			for _, b := range batches {
				fmt.Fprintf(o.w, "%s,", filepath.Base(b))
			}
			fmt.Fprintf(o.w, "iterations,%.1f_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n", p.Percentile)
		}
	case o.results:
		overhead, stage := "overhead", "Stage"
		if t != nil && len(batches) == 0 {
			overhead = t.Overhead
		}
		if o.final {
			stage = "Test"
		}
		fmt.Fprint(o.w, "+--------------+--------------+------------------------------+---------------------+-----------------------+\n")
		fmt.Fprintf(o.w, "|              |              |       %8s (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |\n", overhead)
		fmt.Fprint(o.w, separator+"\n")
		fmt.Fprintf(o.w, "|    %5s     | # iterations | %4.1f%%ile | average | overall |  average |  overall |  average  |  overall  |\n", stage, p.Percentile)
		fmt.Fprint(o.w, separator+"\n")
	case o.test:
		fmt.Fprint(o.w, line)
	}
}

const separator = "+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+"

// testName prints a line with the name of a test from batch files.
func (o *printer) testName() {
	if o.csv || o.final || !o.results || len(o.names) == 0 {
		return
	}
	name := strings.Join(o.names, "/")
	line := "+" + name
	if len(line) < len(separator) {
		line += separator[len(line):]
	}
	fmt.Fprintln(o.w, line)
}

// line prints intermediate results of a thread. Any thread may call it.
func (o *printer) line(thread int, r *result) {
	if o.results && !o.final {
		o.print(fmt.Sprintf("[thread %d]", thread), o.columns(r), r.info)
	}
}

// result prints the results of all threads, as one line.
func (o *printer) result(list []result) {
	if !o.results {
		return
	}
	name := "Final:    "
	switch {
	case o.csv:
		name = ""
	case o.final:
		name = fmt.Sprintf("%s%10s", strings.Join(o.names, "/"), "")
	}
	if len(list) > 1 {
		o.print(name, o.totals(sum(list)), list[0].info)
	} else {
		o.print(name, o.columns(&list[0]), list[0].info)
	}
}

// print writes a line with one call.
func (o *printer) print(name, columns, info string) {
	var b strings.Builder
	if o.csv {
		for _, n := range o.names {
			fmt.Fprintf(&b, "%s,", n)
		}
	}
	b.WriteString(name)
	b.WriteString(columns)
	if o.extra && !o.csv {
		fmt.Fprintf(&b, "  %s", info)
	}
	b.WriteByte('\n')
	o.mu.Lock()
	defer o.mu.Unlock()
	io.WriteString(o.w, b.String())
}

// Units of the columns.
const (
	usec = 1e6
	mb   = 1 << 20
)

// columns formats the results of one thread.
func (o *printer) columns(r *result) string {
	format := "%18s %10.3f %9.3f %9.3f %11.2f %10.2f %11s %11s"
	if o.csv {
		format = "%4s,%.3f,%.3f,%.3f,%.2f,%.2f,%s,%s"
	}
	return fmt.Sprintf(format, o.count(float64(r.iters)),
		r.latency*usec, r.latencyMoment*usec, r.latencyTotal*usec,
		r.bandwidthMoment/mb, r.bandwidthTotal/mb, o.count(r.rateMoment), o.count(r.rateTotal))
}

// totals formats the combined results of several threads: they have no common last interval and no
// median. In CSV they also have fewer columns, as in C.
func (o *printer) totals(r result) string {
	format := "%18s %29.3f %22.2f %23s"
	switch {
	case o.csv:
		format = "%4s,%.3f,%.2f,%s"
	case o.numeric:
		format = "%18s %29.3f %22.2f %24s"
	}
	return fmt.Sprintf(format, o.count(float64(r.iters)), r.latencyTotal*usec, r.bandwidthTotal/mb, o.count(r.rateTotal))
}

// count formats a number without decimals, with grouped digits if requested.
func (o *printer) count(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	if o.numeric && !o.csv {
		return grouped(digits)
	}
	return digits
}

// grouped puts commas between thousands, as the locale en_US does.
func grouped(digits string) string {
	if strings.Trim(digits, "0123456789") != "" {
		return digits // infinite or not a number
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
