//go:build linux

// Command ucx_perftest measures latency, bandwidth and message rate between two processes, or of
// one process with itself. Options, test names, output and the out-of-band protocol of the two
// processes are those of C UCX's tool of the same name (openucx/ucx src/tools/perf), so either side
// may be the C program: a server detects releases 1.13 and 1.22, and a client uses the protocol of
// the release that --peer names.
//
// Options that only C's tool has are refused with exit code 1.
//
// The parts of the program: options.go reads the command line, connect.go makes the connection over
// which both sides coordinate (package perfoob), session.go runs the stages of one test on the
// threads of team.go, each through a runner (ucp_thread.go or uct.go with their loops), counter.go
// measures the times, and report.go prints them.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
)

// Exit codes. The last two are C's -1 and -127.
const (
	exitOK          = 0
	exitUnsupported = 1
	exitFailure     = 255
	exitUsage       = 129
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	if errors.Is(err, errHelp) {
		usage(stdout)
		return exitOK
	}
	if err != nil {
		complain(stderr, err)
		if errors.Is(err, ucs.ErrUnsupported) {
			return exitUnsupported
		}
		usage(stdout)
		return exitUsage
	}
	if err := execute(o, stdout, stderr); err != nil {
		if o.params.Flags&perfoob.FlagVerbose != 0 {
			complain(stderr, err)
		}
		if errors.Is(err, errLeftOut) {
			return exitUnsupported
		}
		return exitFailure
	}
	return exitOK
}

// execute runs the command line.
func execute(o *options, stdout, stderr io.Writer) error {
	if err := setAffinity(o.cpus, stderr); err != nil {
		return err
	}
	g, err := connect(o, stdout)
	if err != nil {
		return err
	}
	defer g.close()
	return runAll(o, g, newPrinter(o, g, stdout, stderr))
}

// runAll runs the one test of the command line, or those of batch files.
func runAll(o *options, g group, out *printer) error {
	if len(o.batches) == 0 {
		if err := adjust(&o.params); err != nil {
			return err
		}
		out.header(&o.params, nil)
		return runTest(g, &o.params, out)
	}
	out.header(&o.params, o.batches)
	return runBatches(g, &o.params, o.batches, out)
}

func complain(w io.Writer, err error) { fmt.Fprintf(w, "ucx_perftest: %v\n", err) }
