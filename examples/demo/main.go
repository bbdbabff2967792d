// Demo shows what this machine's transports do: for each of them, two processes
// exchange tagged messages of 8 bytes to 4 MiB, and a table of latency,
// bandwidth and message rate grows while they run.
//
//	demo [-time 100ms] [transport/device ...]
//
// Without arguments every transport and device is used, whatever UCX_TLS and
// UCX_NET_DEVICES say; other settings count. This process is the client; the
// server is the same program, started once for each line of the list above. The
// two tell each other their worker addresses over the server's standard input
// and output; everything else goes through UCX.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/ucx-go/ucx/ucs/log"
)

func main() {
	duration := flag.Duration("time", 100*time.Millisecond, "least duration of one measurement")
	serve := flag.String("serve", "", "be the server over this transport/device (used by the client)")
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

// runClient measures each of the wanted transports, or all.
func runClient(ctx context.Context, wanted []string, duration time.Duration) error {
	log.SetLevel(log.LevelWarn) // unless UCX_LOG_LEVEL says otherwise; the servers need not repeat it
	found, err := paths()
	if err != nil {
		return err
	}
	for _, name := range wanted {
		if !slices.Contains(found, name) {
			return fmt.Errorf("no transport %s here; there are: %v", name, found)
		}
	}
	if len(wanted) == 0 {
		wanted = found
	}
	fmt.Println("Two processes over", strings.Join(wanted, ", "))
	for _, name := range wanted {
		if err := measurePath(ctx, name, duration); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
