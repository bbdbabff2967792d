//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
)

func usage(w io.Writer) {
	fmt.Fprint(w, `  Usage: ucx_perftest [ server-address ] [ options ]

  Without a server's address the process waits for a client, which decides about
  the test. Either side may be the ucx_perftest of C UCX 1.13 or 1.22.

  Common options:
     -t <test>      test to run:
`)
	for i := range perfoob.Tests {
		t := &perfoob.Tests[i]
		fmt.Fprintf(w, "    %13s - %v %s\n", t.Name, t.API, t.Desc)
	}
	p := perfoob.DefaultParams()
	fmt.Fprintf(w, `
     -s <size>      bytes of a message, or of its parts: 16,48,4096, or 1024:16
                    for 16 parts of 1024; at most %d parts (%d)
     -m <type>[,<type>]
                    memory of sender and receiver: host, C's other types are
                    refused by name (host)
     -n <iters>     iterations, 0: no end (%d)
     -w <iters>     iterations to warm up, at most (%d)
     -O <count>     sends outstanding at most, 0: as the test has it (%d)
     -i <bytes>     from the start of one part of a message to the next,
                    0: no gaps (%d)
     -c <cpus>      bind to these CPUs, separated by commas
     -l             loopback: the process talks to itself
     -o             in one-sided tests, no progress while only the other side works
     -B             do not populate the memory of messages
     -b <file>      run the tests of a file: in each line a name, then options
     -R <rank>      which percentile to print (%.1f)
     -p <port>      TCP port where the two sides meet (%d)
     -6             meet over IPv6
     --peer <rel>   release of the server if it is C's, 1.13 or 1.22 (%v)
     -h             print this text

  Output:
     -N             group digits in thousands
     -f             print final numbers only
     -v             print CSV
     -X             add the library's information about the operation, UCP only
     -q             no error messages once the command line is read

  UCT only:
     -d <device>    device
     -x <tl>        transport
     -D <layout>    how to send: short, shortiov, bcopy, zcopy (short)
     -W <count>     active messages on their way, 1 to %d in am_bw (%d)
     -H <bytes>     active message header, part of the message (%d)
     -A <mode>      how the other side progresses asynchronously if it is C's:
                    thread_spinlock, thread_mutex, signal (thread_spinlock)

  UCP only; UCX_TLS and UCX_NET_DEVICES select transports and devices:
     -M <mode>      thread mode: single, serialized, multi (serialized)
     -D <type>[,<type>]
                    data of sender and receiver: contig, iov (contig)
     -C             receive any tag
     -U             receive only what has arrived, by probing
     -r <mode>      receive streams into a buffer, or where they have arrived:
                    recv, recv_data (recv)
     -H <bytes>     active message header, besides the message (%d)
     -y             copy active messages in their handler
     -z             hand over the registration of what is sent
     -I             ask for wakeup support
     -e             handle errors of endpoints
     -E <mode>      wait by poll or by sleep (poll), or in blocking calls of
                    the library (block); affects this side only
     -T <threads>[:<blocks>]
                    threads, each with a worker, connected to the other side's of
                    the same number (%d); the last line is of all of them; blocks
                    are as -L, -F and -Y
     --shared       one worker for all threads; both sides need it; not in C's tool

  For operations that an accelerator starts, which are not supported; the
  values are checked and passed on, as by C's tool without -a:
     -L <level>     threads that start an operation: thread, warp, block, grid
                    (thread)
     -F <count>     operations before flow control (%d)
     -Y <mode>      channel: single, random[:<seed>], per-thread (single)

  Of C's options these are missing:
`,
		perfoob.MaxSizes, p.Sizes[0], p.Iters, p.WarmupIters, p.Window, p.Stride, p.Percentile, defaultPort, perfoob.Release122,
		perfoob.MaxFCWindow, p.FCWindow, p.UCTHeader, p.UCPHeader, p.Threads, p.Accelerated.Window)
	for _, o := range optionsLeftOut {
		options := "-" + strings.Join(strings.Split(o.letters, ""), " -")
		fmt.Fprintf(w, "     %-14s %s\n", options, o.reason)
	}
	fmt.Fprintln(w)
}
