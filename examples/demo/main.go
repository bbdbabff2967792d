// Demo shows what this machine's transports do: for each of them, two processes
// exchange tagged messages of 8 bytes to 4 MiB, and a table of latency,
// bandwidth and message rate grows while they run. Over the transport "self" one
// process sends to itself.
//
//	demo [-time 100ms] [self|posix|sysv|cma|tcp/device ...]
//
// Without arguments every transport and network device is used, and UCX_TLS and UCX_NET_DEVICES are
// ignored; other settings apply. This process is the client; the server is the same program,
// started once for each transport or network device. The two send each other their worker addresses
// over the server's standard input and output; everything else goes through UCX.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"
)

func main() {
	duration := flag.Duration("time", 100*time.Millisecond, "least duration of one measurement")
	serve := flag.String("serve", "", "be the server over this transport (used by the client)")
	flag.Parse()
	// An interrupt ends the process by closing what is open, server included.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var err error
	if *serve != "" {
		err = runServer(ctx, *serve)
	} else {
		err = runClient(ctx, flag.Args(), *duration)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// runClient measures the transports in the list wanted, or all if the list is empty.
func runClient(ctx context.Context, wanted []string, duration time.Duration) error {
	found, err := paths()
	if err != nil {
		return err
	}
	list := found
	if len(wanted) > 0 {
		list = nil
	}
	for _, name := range wanted {
		p, err := find(found, name)
		if err != nil {
			return err
		}
		list = append(list, p)
	}
	fmt.Println("Messages between two processes, and within one: latency one way, bandwidth and rate of a stream.")
	for _, s := range remarks() {
		fmt.Println(s)
	}
	var done []measured
	for i, p := range list {
		measure := measurePair
		if p.alone() {
			measure = measureLoop
		}
		t := newTable(p.title(), i+1, len(list))
		if err := measure(ctx, p, t, duration); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		done = append(done, measured{p, t.rows})
	}
	if s := summary(done); s != "" {
		fmt.Println()
		fmt.Println(s)
	}
	return nil
}

// remarks returns remarks that a reader needs to judge the figures of this run.
func remarks() (list []string) {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil { // Linux has it
		var load float64
		if _, err := fmt.Sscan(string(text), &load); err == nil && load > float64(runtime.NumCPU())/2 {
			list = append(list, fmt.Sprintf("This machine is busy (load %.1f, %d processors): the figures say little.", load, runtime.NumCPU()))
		}
	}
	for _, name := range []string{"UCX_TLS", "UCX_NET_DEVICES"} {
		if os.Getenv(name) != "" {
			list = append(list, name+" is set and not used here: every transport is shown.")
		}
	}
	return list
}
