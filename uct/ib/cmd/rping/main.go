//go:build linux

// Command rping connects with the RDMA connection manager and exchanges data by reading and writing
// the other side's memory. Its flags, output and protocol are those of the rping of librdmacm
// (linux-rdma/rdma-core librdmacm/examples/rping.c), so either side may be the C program.
//
// In one ping, the client sends the address of its text; the server reads the text and sends "go
// on"; the client sends the address of the buffer for the answer; the server writes the text there
// and sends "go on".
//
// It is stricter than C: a client fails if it is disconnected before it is done, and a server fails
// if its client offers a buffer that is larger than its own.
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

// Exit codes of rping. The C program exits with an errno or -1.
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

// system is the interface to the kernel, or a substitute in tests.
type system struct {
	channel func() (*rdmacm.EventChannel, error)
	open    func(rdmacm.Addr) (*verbs.Context, error)
}

// program is one run of rping.
type program struct {
	*options
	sys *system
	mu  sync.Mutex // held while printing: connections of a persistent server run concurrently
	out io.Writer  // under mu
	err io.Writer  // under mu
}

// errDisconnected is the normal end of a server's connection.
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

// debugf prints a message if -d is given.
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

// complain prints the cause of a failure, with the text of C where it has one, and returns the
// error.
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

// config returns the options of connections.
func (p *program) config() *rdmacm.Config {
	return &rdmacm.Config{NewChannel: p.sys.channel, Source: p.source}
}

// param returns the parameters that both sides send: one read in flight.
func param() *rdmacm.ConnParam {
	return &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7}
}
