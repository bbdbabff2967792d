//go:build linux

// Command ib_perftest measures the latency and bandwidth of an RDMA device between two processes.
// It implements perftest's ib_write_lat, ib_read_lat, ib_send_lat, ib_atomic_lat, ib_write_bw,
// ib_read_bw, ib_send_bw and ib_atomic_bw. Either side may be the C program, of perftest 4.5 or
// another compatible release: tests, flags, columns and the TCP protocol are the same
// (linux-rdma/perftest). Options of the C programs that this tool does not have are refused.
//
//	ib_perftest write_lat -d rxe0             # waits for a client
//	ib_perftest write_lat -d rxe0 -s 8 HOST
//
// Structure: options.go reads the command line; wire.go encodes the TCP messages and peer.go
// exchanges them; session.go runs a test, on the memory and queues of endpoint.go, with the loops
// of lat.go and bw.go; report.go prints the results.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/internal/ticks"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/cmd/internal/ibtool"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// version is the version in the TCP protocol; perftest 4.5 sends this one.
const version = "6.06"

func main() {
	ticks.TrustCounter() // like C
	// Only one goroutine does work. With a second P, Go would wake a thread to look for work each
	// time the first has run for a while.
	runtime.GOMAXPROCS(1)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	switch {
	case errors.Is(err, errHelp):
		usage(stdout)
		return 0
	case errors.Is(err, errVersion):
		fmt.Fprintf(stdout, "Version: %s\n", version)
		return 0
	case err == nil:
		err = (&session{options: o, out: stdout, open: openDevice, yield: sys.Yield}).run(ctx)
	}
	if err != nil {
		fmt.Fprintf(stderr, "ib_perftest: %v\n", err)
		return 1
	}
	return 0
}

// openDevice opens the device with this name, or the first device if the name is empty. It also
// returns the name of the device.
func openDevice(name string) (*verbs.Context, string, error) {
	if name == "" {
		list, err := verbs.Devices("")
		if err != nil {
			return nil, "", err
		}
		if len(list) == 0 {
			return nil, "", fmt.Errorf("no RDMA devices found: %w", ucs.ErrNoDevice)
		}
		name = list[0].Name
	}
	c, err := ibtool.Open(name)
	return c, name, err
}
