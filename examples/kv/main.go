// Kv is a key-value store in memory that its clients read and write directly. The server only tells
// clients the location of the table: clients look up, lock and change entries by one-sided
// operations. In shared memory those are the client's own loads and stores; elsewhere the server's
// worker carries them out when it is progressed.
//
//	kv -serve 127.0.0.1:0                        the server, which prints its address
//	kv -connect 127.0.0.1:12345 put KEY VALUE    its client, on this machine or elsewhere
//	kv -connect 127.0.0.1:12345 get KEY
//	kv -connect 127.0.0.1:12345 swap KEY VERSION VALUE    if the key still has this version
//
// Without -serve and -connect the program starts itself as the server, and shows what a
// client can do.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

func main() {
	listen := flag.String("serve", "", "be the server at this address, until an interrupt")
	connect := flag.String("connect", "", "be a client of the server at this address")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "usage: kv [-serve ADDRESS | -connect ADDRESS COMMAND]\n"+
			"commands: get KEY, put KEY VALUE, swap KEY VERSION VALUE\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var err error
	switch {
	case *connect == "" && flag.NArg() > 0:
		err = fmt.Errorf("%q: a command takes -connect", flag.Args())
	case *listen != "" && *connect != "":
		err = fmt.Errorf("-serve %s and -connect %s exclude each other", *listen, *connect)
	case *listen != "":
		err = runServer(ctx, *listen)
	case *connect != "" && checkCommand(flag.Args()) != nil:
		err = checkCommand(flag.Args())
	case *connect != "":
		err = runClient(ctx, *connect, func(c *client) error { return c.command(ctx, flag.Args()) })
	default:
		err = runBoth(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kv:", err)
		os.Exit(1)
	}
}

// runServer serves a table until ctx ends.
func runServer(ctx context.Context, at string) error {
	addr, err := netip.ParseAddrPort(at)
	if err != nil {
		return fmt.Errorf("-serve %q: %w", at, err)
	}
	s, err := newServer(addr, tableSlots)
	if err != nil {
		return err
	}
	defer s.close()
	fmt.Println(s.addr())
	if err := s.worker.Run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// runClient connects to a server and calls do with the client.
func runClient(ctx context.Context, server string, do func(*client) error) error {
	addr, err := netip.ParseAddrPort(server)
	if err != nil {
		return fmt.Errorf("-connect %q: %w", server, err)
	}
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.close(ctx))
}

// runBoth starts a server process, and runs its client in this process.
func runBoth(ctx context.Context) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	server := exec.CommandContext(ctx, program, "-serve", "127.0.0.1:0")
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		server.Process.Signal(os.Interrupt)
		err = errors.Join(err, server.Wait())
	}()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the server has not sent its address: %w", err)
	}
	return runClient(ctx, strings.TrimSpace(addr), func(c *client) error { return c.show(ctx) })
}

// shared is a worker that any goroutine may use, and its context.
type shared struct {
	worker  *ucp.Worker
	context *ucp.Context
}

func open() (shared, error) {
	features := ucp.FeatureAM | ucp.FeatureRMA | ucp.FeatureAMO64
	c, err := ucp.NewContext(ucp.ContextParams{Features: features}, nil)
	if err != nil {
		return shared{}, err
	}
	w, err := c.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti})
	if err != nil {
		c.Close()
		return shared{}, err
	}
	return shared{w, c}, nil
}

func (s shared) close() {
	s.worker.Close()
	s.context.Close()
}
