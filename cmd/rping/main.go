//go:build linux

// Command rping connects with the RDMA connection manager and plays ping-pong by
// reading and writing the other side's memory. Its flags, output and what goes over
// the wire are those of the rping of librdmacm (linux-rdma/rdma-core
// librdmacm/examples/rping.c), so either side may be the C program.
//
// A ping is this: the client sends where its text is; the server reads it and says
// go on; the client sends where it wants it back; the server writes it there and
// says go on.
//
// It differs where C is careless: a client that is disconnected before it is done
// fails, and so does a server whose client offers more than the server has room for.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Exit codes. C's are its errno and -1.
const (
	exitOK      = 0
	exitInvalid = 22
	exitFailure = 255
)

func main() {
	devices := new(rdmacm.Contexts)
	status := run(context.Background(), &system{rdmacm.NewEventChannel, devices.Open}, os.Args[1:], os.Stdout, os.Stderr)
	devices.Close()
	os.Exit(status)
}

// system is what rping runs on: the kernel, or what stands in for it in tests.
type system struct {
	channel func() (*rdmacm.EventChannel, error)
	open    func(rdmacm.Addr) (*verbs.Context, error)
}

// program is one run of rping.
type program struct {
	*options
	sys *system
	mu  sync.Mutex // connections of a persistent server print by turns
	out io.Writer  // under mu
	err io.Writer  // under mu
}

// errDisconnected is the end of a server's connection.
var errDisconnected = errors.New("disconnected")

func run(ctx context.Context, sys *system, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	if errors.Is(err, errHelp) {
		usage(stdout)
		return exitOK
	}
	if errors.Is(err, errUsage) {
		fmt.Fprintf(stderr, "rping: %v\n", err)
		usage(stdout)
		return exitInvalid
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitInvalid
	}
	p := &program{options: o, sys: sys, out: stdout, err: stderr}
	switch {
	case !o.server:
		err = p.client(ctx)
	case o.persistent:
		err = p.servePersistent(ctx)
	default:
		err = p.serve(ctx)
	}
	if err != nil {
		return exitFailure
	}
	return exitOK
}

func (p *program) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format, args...)
}

// debugf prints what -d shows.
func (p *program) debugf(format string, args ...any) {
	if p.debug {
		p.printf(format, args...)
	}
}

func (p *program) errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.err, format, args...)
}

// complain prints why something failed, as C where it has a line for that, and
// returns the error.
func (p *program) complain(what string, err error) error {
	var rejected *rdmacm.RejectedError
	var event *rdmacm.EventError
	switch {
	case errors.As(err, &rejected):
		p.errorf("cma event RDMA_CM_EVENT_REJECTED, error %d\n", int(rejected.Reason))
	case errors.As(err, &event):
		p.errorf("cma event RDMA_CM_EVENT_%v, error %d\n", event.Type, -int(event.Errno))
	}
	p.errorf("rping: %s: %v\n", what, err)
	return err
}

// config is how connections are made.
func (p *program) config() *rdmacm.Config {
	return &rdmacm.Config{NewChannel: p.sys.channel, Source: p.source}
}

// param is what both sides tell each other: one read under way.
func param() *rdmacm.ConnParam {
	return &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7}
}
