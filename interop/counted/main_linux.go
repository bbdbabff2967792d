// Counted is the program whose instructions TestInstructions of package interop counts, one
// operation of two workers of this process:
//
//	counted [-self] [-multi] [-rdma DRIVER] OPERATION SIZE PASSAGES
//
// It carries out the operation some thousand times. Then it calls getppid(2), carries out PASSAGES
// operations, in which the workers alternate, with a call of mark behind each, and calls getppid
// again. The C program of the same shape is testdata/counted/counted.c: what is changed here is
// changed there.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// rounds is how many operations are carried out before those that are counted: everything is
// connected then, and every pool and ring was used all around.
const rounds = 3000

var (
	self  = flag.Bool("self", false, "one worker that sends to itself, in place of two")
	multi = flag.Bool("multi", false, "thread mode multi")
	rdma  = flag.String("rdma", "", "with an RDMA device without a kernel, model0: rxe or mlx5")
)

func init() { runtime.LockOSThread() } // the thread that is counted

// mark separates the passages.
//
//go:noinline
func mark() {}

func main() {
	flag.Parse()
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "counted:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%d arguments, want OPERATION SIZE PASSAGES", len(args))
	}
	op := operations[args[0]]
	if op.run == nil {
		return fmt.Errorf("no operation %s", args[0])
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	passages, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	mode := ucs.ThreadModeSingle
	if *multi {
		mode = ucs.ThreadModeMulti
	}
	p, err := newPair(op, size, mode)
	if err != nil {
		return err
	}
	for i := range rounds {
		p.once(i & 1)
		if i < 100 {
			p.settle()
		}
	}
	if args[0] == "idle" {
		p.rest()
	}
	unix.Getppid()
	mark()
	for i := range passages {
		p.once(i & 1)
		mark()
	}
	unix.Getppid()
	return nil
}
