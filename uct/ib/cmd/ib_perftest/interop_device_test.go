//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/porttest"
	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct/ib/cmd/internal/ibtool"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// onDevice returns the flags for the RDMA device of this machine and its GID, for both kinds of
// tools.
func onDevice(t *testing.T) string {
	t.Helper()
	c, name, err := openDevice(rdmatest.Device(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := ibtool.FindPort(c, 1, ibtool.NoIndex)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(" -d %s -x %d", name, p.GID.Index)
}

func needC(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		needtest.Tool(t, fmt.Sprintf("%v (apt-get install perftest)", err))
	}
}

// interop are the command lines that run with C. The clock of C may fail on a busy machine: -F
// makes it continue, with results that are not numbers.
var interop = []string{
	"write_lat -s 64", "read_lat -s 8192", "send_lat -s 9000", "atomic_lat",
	"write_bw -s 8192", "read_bw -s 8192", "send_bw -s 64", "atomic_bw",
	"write_lat -c UC", "send_lat -c UD -s 1024",
}

// interopLong are the additional ones of a long run.
var interopLong = []string{
	"send_lat -c UC -s 5000", "write_bw -c UC -s 4096", "send_bw -c UD -s 1024",
	"read_lat -e -s 64", "send_lat -e -s 64", "send_lat -t 8 -Q 3", "atomic_lat -A CMP_AND_SWAP",
	"write_bw -l 10 -s 64", "write_bw -b -s 8192", "read_bw -b -s 4096", "read_bw -e -s 8192", "read_bw -o 1", "send_bw -e -s 64", "send_bw -b -s 64",
	"send_bw -c UC -s 4096", "atomic_bw -b", "write_bw -m 1024", "write_lat -a", "send_bw -a", "read_bw -a -b", "send_lat -a -c UD",
}

// TestInterop runs against perftest in both roles. The data that C has sent is checked on this
// side; C checks nothing.
func TestInterop(t *testing.T) {
	flags := onDevice(t)
	list := interop
	if os.Getenv("RXE_LONG") != "" {
		list = append(list, interopLong...)
	}
	for number, args := range list {
		if !rdmatest.InPart(t, number) {
			continue
		}
		name, _, _ := strings.Cut(args, " ")
		needC(t, "ib_"+name)
		if !strings.Contains(args, "-a") {
			args += " -n 100"
		} else {
			args += " -n 10"
		}
		var heads [2]string // of the C client and of ours
		for _, serve := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/server=%v", args, serve), func(t *testing.T) {
				ucttest.NoLeaks(t)
				ours, c := withC(t, args+flags, serve)
				ours.checkRows(t)
				ours.checkData(t, true)
				c.checkRows(t, ours)
				if serve {
					heads[0] = head(c.out.String())
				} else {
					heads[1] = head(ours.out.String())
				}
			})
		}
		if d := cmp.Diff(heads[0], heads[1]); d != "" && !t.Failed() {
			t.Errorf("%s: C prints (-) and we do (+):\n%s", args, d)
		}
	}
}

// withC runs a test with a C tool as the peer of this process.
func withC(t *testing.T, args string, serve bool) (*side, *tool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	port := porttest.Free(t)
	args += " -F -p " + strconv.Itoa(port)
	server, client := args, args+" 127.0.0.1"
	var ours *side
	var c *tool
	if serve {
		ours, c = newSide(t, openDevice, server), newTool(ctx, false, client)
		done := make(chan struct{})
		go func() {
			defer close(done)
			ours.run(ctx)
		}()
		listening(t, port)
		err := c.Run()
		if err != nil {
			cancel()
		}
		if <-done; err != nil || ours.err != nil {
			t.Fatalf("server: %v, client: %v\n%v", ours.err, err, c)
		}
		return ours, c
	}
	ours, c = newSide(t, openDevice, client), newTool(ctx, false, server)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	listening(t, port)
	ours.run(ctx)
	if ours.err != nil {
		cancel()
	}
	if err := c.Wait(); err != nil || ours.err != nil {
		t.Fatalf("client: %v, server: %v\n%v", ours.err, err, c)
	}
	return ours, c
}

// checkRows checks that C prints as many rows and columns as our side.
func (c *tool) checkRows(t *testing.T, ours *side) {
	t.Helper()
	client := strings.HasSuffix(strings.Join(c.Args, " "), "127.0.0.1")
	want := len(ours.sizes())
	switch {
	case !ours.bw && ours.fetches() && !client:
		want = 0
	case ours.bw && ours.verb != verbSend && !client && !ours.both:
		want = 1
	}
	columns := 9
	if ours.bw {
		columns = 5
	}
	n := 0
	_, table, _ := strings.Cut(c.out.String(), " #bytes")
	for _, text := range strings.Split(table, "\n")[1:] {
		if strings.HasPrefix(text, " ") {
			n++
			if f := strings.Fields(text); len(f) != columns || f[1] != strconv.Itoa(ours.iters) {
				t.Errorf("%q has not %d columns or %d iterations", text, columns, ours.iters)
			}
		}
	}
	if n != want {
		t.Errorf("%d rows, want %d: %v", n, want, c)
	}
}

var numbers = regexp.MustCompile(`0x[0-9a-f]+`)

// head returns the text above the rows, without what differs between two runs.
func head(out string) string {
	// C prints this while it parses the command line.
	out = strings.ReplaceAll(out, line+"Post List requested - CQ moderation will be the size of the post list\n", "")
	top, columns, _ := strings.Cut(out, " #bytes")
	columns, _, _ = strings.Cut(columns, "\n")
	for strings.HasPrefix(top, line+line[:10]) {
		top = top[len(line):] // C prints warnings between the two lines, to the other stream
	}
	// With the mlx5 library, C uses another interface.
	top = strings.ReplaceAll(top, "ibv_wr* API     : ON", "ibv_wr* API     : OFF")
	return numbers.ReplaceAllString(top, "0x#") + columns
}

// TestBothOurs runs our tool as both processes on the device.
func TestBothOurs(t *testing.T) {
	flags := onDevice(t)
	for _, args := range []string{"write_lat", "send_bw -b -s 64", "read_bw -s 8192"} {
		server, client, err := processes(t, true, true, args+" -n 100"+flags)
		if err != nil || len(rows(t, client.out.String())) != 1 {
			t.Errorf("%v: %v\n%v", err, server, client)
		}
	}
}
