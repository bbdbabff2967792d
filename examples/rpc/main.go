// Rpc calls functions of another process by active messages: a message is a call, and the receiver
// replies on the endpoint that comes with it. Calls have names, arguments and deadlines, and any
// number of goroutines make them at once. Long data is not sent with the message but offered, and
// the receiver fetches it, directly from the sender's memory if the machine allows that.
//
//	rpc [-callers 8] [-calls 1000]
//	rpc -serve 127.0.0.1:0             the server, which prints its address
//	rpc -connect 127.0.0.1:12345       its client, on this machine or elsewhere
//
// Without -serve and -connect the program starts itself as the server, and is its client.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

func main() {
	callers := flag.Int("callers", 8, "goroutines that call")
	calls := flag.Int("calls", 1000, "calls of each")
	listen := flag.String("serve", "", "be the server at this address, until an interrupt")
	connect := flag.String("connect", "", "be the client of the server at this address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("%q: no arguments are known but the flags that -h lists", flag.Args())
	case *callers < 1 || *calls < 1:
		err = fmt.Errorf("-callers %d -calls %d: at least 1 of each is needed", *callers, *calls)
	case *listen != "" && *connect != "":
		err = fmt.Errorf("-serve %s and -connect %s exclude each other", *listen, *connect)
	case *listen != "":
		err = runServer(ctx, *listen)
	case *connect != "":
		err = runClient(ctx, *connect, *callers, *calls)
	default:
		err = runBoth(ctx, *callers, *calls)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rpc:", err)
		os.Exit(1)
	}
}

// runServer runs a server until ctx ends.
func runServer(ctx context.Context, at string) error {
	addr, err := netip.ParseAddrPort(at)
	if err != nil {
		return fmt.Errorf("-serve %q: %w", at, err)
	}
	s, err := newServer(addr)
	if err != nil {
		return err
	}
	defer s.close()
	fmt.Println(s.addr())
	if err := s.run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// runBoth starts a server process, and runs its client in this process.
func runBoth(ctx context.Context, callers, calls int) (err error) {
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
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		return fmt.Errorf("the server has not sent its address: %w", err)
	}
	return runClient(ctx, addr, callers, calls)
}

// shared is a worker that any goroutine may use, and its context.
type shared struct {
	worker  *ucp.Worker
	context *ucp.Context
}

func open(p ucp.WorkerParams) (shared, error) {
	c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureAM}, nil)
	if err != nil {
		return shared{}, err
	}
	p.ThreadMode = ucs.ThreadModeMulti
	w, err := c.NewWorker(p)
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
