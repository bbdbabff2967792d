//go:build linux

package pingpong

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/cmd/internal/ibtool"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Tool is one of the pingpong tools.
type Tool struct {
	Name    string
	typ     verbs.QPType
	shared  bool   // several queue pairs receive from one queue
	letters string // option letters in the format of getopt, as in C
	size    int    // default length of messages, in bytes
	fill    byte   // byte of which messages consist
}

// The pingpong tools of rdma-core. Default sizes are those that the C tools use, not those in their
// usage texts.
var (
	RC  = &Tool{Name: "rc_pingpong", typ: verbs.RC, letters: "p:d:i:s:m:r:n:l:eg:oOPtcjN", size: 4096, fill: 0x7b}
	UC  = &Tool{Name: "uc_pingpong", typ: verbs.UC, letters: "p:d:i:s:m:r:n:l:eg:c", size: 4096, fill: 0x7b}
	UD  = &Tool{Name: "ud_pingpong", typ: verbs.UD, letters: "p:d:i:s:r:n:l:eg:c", size: 1024, fill: 0x7b}
	SRQ = &Tool{Name: "srq_pingpong", typ: verbs.RC, shared: true, letters: "p:d:i:s:m:q:r:n:l:eog:c", size: 4096}
)

// Exit statuses of the tools.
const (
	exitOK     = 0
	exitFailed = 1
)

// Main runs the tool as a program and ends the process. A first interrupt or termination signal
// makes it clean up and end, a second one ends it at once.
func (t *Tool) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(t.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Run runs the tool and returns its exit status. The parameter args is the command line without the
// program's name. When ctx is done, Run gives up and cleans up.
func (t *Tool) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return t.run(ctx, args, stdout, stderr, ibtool.Open)
}

// opener opens a device by its name.
type opener func(name string) (*verbs.Context, error)

func (t *Tool) run(ctx context.Context, args []string, stdout, stderr io.Writer, open opener) int {
	o, err := t.parse(args)
	if errors.Is(err, errHelp) {
		t.usage(stdout)
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", t.Name, err)
		if !errors.Is(err, errMissing) {
			t.usage(stdout)
		}
		return exitFailed
	}
	if err := t.play(ctx, o, stdout, open); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", t.Name, err)
		return exitFailed
	}
	return exitOK
}

func (t *Tool) play(ctx context.Context, o *options, stdout io.Writer, open opener) (err error) {
	s, err := t.newSession(o, open)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, d := range s.local {
		t.printLocal(stdout, d)
	}
	k, err := s.meet(ctx)
	if err != nil {
		return err
	}
	defer k.close()
	for _, d := range s.remote {
		printRemote(stdout, d)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k.watch(cancel)
	elapsed, err := s.loop(ctx, k)
	if err != nil {
		return err
	}
	printRates(stdout, o.size, o.iters, elapsed)
	if o.check {
		err = s.verify(stdout)
	}
	k.finish(ctx)
	return err
}
