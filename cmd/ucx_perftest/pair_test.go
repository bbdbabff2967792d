//go:build linux

package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
)

// sides runs a server and a client in this process, over a real connection, and returns the output
// of each. The client's arguments do not include the server's address.
func sides(t *testing.T, serverArgs, clientArgs []string) (server, client string, errs [2]error) {
	t.Helper()
	return sidesOver(t, "tcp", serverArgs, clientArgs)
}

// sidesOver is sides with the given transports.
func sidesOver(t *testing.T, transports string, serverArgs, clientArgs []string) (server, client string, errs [2]error) {
	t.Helper()
	t.Setenv("UCX_TLS", transports)
	t.Setenv("UCX_NET_DEVICES", "lo")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	options := func(args []string) *options {
		o, err := parseOptions(args)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	so := options(serverArgs)
	co := options(append(clientArgs, "127.0.0.1", "-p", port))

	var serverOut, clientOut bytes.Buffer
	done := make(chan error, 1)
	go func() {
		g, err := accept(so, l, &serverOut)
		if err == nil {
			err = errors.Join(runAll(so, g, newPrinter(so, g, &serverOut, io.Discard)), g.close())
		}
		done <- err
	}()
	g, err := connectClient(co)
	if err == nil {
		err = errors.Join(runAll(co, g, newPrinter(co, g, &clientOut, io.Discard)), g.close())
	}
	errs[1] = err
	errs[0] = <-done
	return serverOut.String(), clientOut.String(), errs
}

// TestPair runs each test between two sides, in the protocol of both releases.
func TestPair(t *testing.T) {
	tests := []string{
		"-t tag_lat", "-t tag_lat -s 100000", "-t tag_lat -W 200 -T 1:4 -L warp -F 9 -Y random:1 -P 0 -m host", "-t tag_lat -U -C", "-t tag_lat -s 16,48 -D iov,iov -i 64", "-t tag_lat -e",
		"-t tag_lat -E sleep", "-t tag_lat -s0",
		"-t tag_bw", "-t tag_bw -s 100000", "-t tag_bw -s 3000,5000 -D iov", "-t tag_bw -O 1", "-t tag_bw -E sleep -I",
		"-t tag_sync_lat", "-t tag_sync_bw",
		"-t ucp_put_lat", "-t ucp_put_lat -s 100000 -e", "-t ucp_put_lat -s1", "-t ucp_put_bw", "-t ucp_put_bw -s 300000",
		"-t ucp_put_bw -s1 -E sleep", "-t ucp_get", "-t ucp_get -s 100000 -O 8", "-t ucp_get -s1", "-t ucp_add", "-t ucp_add -s4",
		"-t ucp_fadd", "-t ucp_fadd -s4 -O 16", "-t ucp_swap", "-t ucp_swap -s4", "-t ucp_cswap", "-t ucp_cswap -s4",
		"-t ucp_am_lat", "-t ucp_am_lat -s0 -H 100", "-t ucp_am_lat -s 300000 -E sleep", "-t ucp_am_lat -s 16,48 -D iov,iov -i 64 -y",
		"-t ucp_am_bw", "-t ucp_am_bw -s 100000 -H 1 -y", "-t ucp_am_bw -s 300000,1000 -D iov,iov -z -B", "-t ucp_am_bw -O 1 -e",
		"-t stream_lat", "-t stream_lat -s0", "-t stream_lat -s 100000 -r recv_data", "-t stream_lat -s 3,5000 -i 6000 -D iov,iov",
		"-t stream_bw -s1 -E sleep", "-t stream_bw -s 300000 -O 8 -z", "-t stream_bw -s 3000 -r recv_data -e",
		"-t stream_bw -s 0,4000 -D iov", "-t tag_bw -s 300000 -z -B", "-t ucp_put_bw -s 300000 -z", "-t ucp_fadd -z",
		"-t am_lat -x tcp -d lo", "-t am_lat -x tcp -d lo -D bcopy -s 1000", "-t am_lat -x tcp -d lo -D zcopy -s 4000 -H 0",
		"-t am_bw -x tcp -d lo -W 10", "-t am_bw -x tcp -d lo -D zcopy -s 1000,500 -O 4",
		"-t put_lat -x tcp -d lo -D zcopy -s 64", "-t put_bw -x tcp -d lo -D zcopy -s 30000",
	}
	for k, peer := range []string{"1.13", "1.22"} {
		for i, args := range tests {
			t.Run(peer+" "+args, func(t *testing.T) {
				if race.Enabled && k != i%2 {
					t.Skip("with the race detector every other one is enough")
				}
				runSides(t, nil, append(strings.Fields(args), "--peer", peer), 8)
			})
		}
	}
}

// runSides runs a short test and checks the output of both sides. The client's results have the
// given number of columns.
func runSides(t *testing.T, serverArgs, clientArgs []string, columns int) {
	t.Helper()
	server, client, errs := sides(t, serverArgs, append(clientArgs, "-n", "20", "-w", "3", "-f"))
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatalf("server: %v, client: %v", errs[0], errs[1])
	}
	if !strings.Contains(server, "Accepted connection from 127.0.0.1:") || !strings.Contains(server, "| Test: ") ||
		strings.Contains(server, "iterations") {
		t.Errorf("the server printed:\n%s", server)
	}
	lines := strings.Split(strings.TrimSpace(client), "\n")
	if got := strings.Fields(lines[len(lines)-1]); len(got) != columns || got[0] != "20" {
		t.Errorf("the client printed:\n%s", client)
	}
}

// TestPairThreads runs several threads on each side, each with its own worker. The last line is the
// total.
func TestPairThreads(t *testing.T) {
	tests := []string{
		"-t tag_lat", "-t tag_lat -U -C", "-t tag_lat -E sleep", "-t tag_lat -E block", "-t tag_lat -M multi", "-t tag_lat -s0", "-t tag_bw -s 100000",
		"-t tag_bw -s 3000,5000 -i 6000 -D iov,iov", "-t tag_sync_bw", "-t ucp_put_lat -s1", "-t ucp_put_bw -s 30000",
		"-t ucp_get -s3", "-t ucp_fadd -s4", "-t ucp_cswap", "-t ucp_am_lat -H 8", "-t ucp_am_bw -s 100000 -y",
		"-t stream_lat", "-t stream_bw -s 100000 -r recv_data", "-t stream_bw -s 3000,5000 -i 6000 -D iov,iov",
	}
	for _, peer := range []string{"1.13", "1.22"} {
		for _, args := range tests {
			t.Run(peer+" "+args, func(t *testing.T) {
				runSides(t, nil, append(strings.Fields(args), "-T", "3", "--peer", peer), 4)
			})
		}
	}
}

// TestPairPassive: a side need not progress while the other accesses its memory, if the transport
// uses shared memory.
func TestPairPassive(t *testing.T) {
	for _, args := range []string{
		"-t ucp_put_lat", "-t ucp_put_bw -s 30000", "-t ucp_get", "-t ucp_fadd", "-t put_lat -x posix -d memory",
		"-t get_bw -x posix -d memory -D bcopy -B", "-t add_mr -x posix -d memory -A signal",
	} {
		_, _, errs := sidesOver(t, "posix", nil, append(strings.Fields(args), "-o", "-n", "300", "-w", "3"))
		if errs != [2]error{} {
			t.Errorf("%s: server: %v, client: %v", args, errs[0], errs[1])
		}
	}
}

// TestPairBlock uses blocking calls on both sides or on one, which the other side need not know.
func TestPairBlock(t *testing.T) {
	for _, test := range []string{"tag_lat", "tag_bw -s 100000", "tag_sync_lat", "tag_sync_bw"} {
		for _, side := range []struct{ name, server, client string }{
			{"both", "-E block", "-E block"}, {"server", "-E block", ""}, {"client", "", "-E block"},
		} {
			t.Run(test+" "+side.name, func(t *testing.T) {
				runSides(t, strings.Fields(side.server), strings.Fields("-t "+test+" "+side.client), 8)
			})
		}
	}
}

// TestPairShared: the threads of each side share one worker.
func TestPairShared(t *testing.T) {
	for _, test := range []string{"tag_lat", "tag_lat -E block", "tag_lat -U", "tag_bw -s 100000", "tag_sync_bw"} {
		t.Run(test, func(t *testing.T) {
			runSides(t, []string{"--shared"}, strings.Fields("-T 3 --shared -t "+test), 4)
		})
	}
}

func TestSameSharing(t *testing.T) {
	one, other := perfoob.UCPInfo{Address: []byte{1}}, perfoob.UCPInfo{Address: []byte{2}}
	tests := []struct {
		name   string
		peers  []perfoob.UCPInfo
		shared bool
		want   error
	}{
		{"a worker each", []perfoob.UCPInfo{one, other}, false, nil},
		{"a worker for all", []perfoob.UCPInfo{one, one, one}, true, nil},
		{"one thread", []perfoob.UCPInfo{one}, false, nil},
		{"one thread that could share", []perfoob.UCPInfo{one}, true, nil},
		{"the other side shares", []perfoob.UCPInfo{one, one}, false, ucs.ErrInvalidParam},
		{"this side shares", []perfoob.UCPInfo{one, one, other}, true, ucs.ErrInvalidParam},
	}
	for _, tt := range tests {
		if err := sameSharing(tt.peers, tt.shared); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestPairBatch(t *testing.T) {
	batch := filepath.Join("testdata", "first")
	_, client, errs := sides(t, []string{"-b", batch}, []string{"-b", batch, "-n", "40", "-w", "3", "-vf"})
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(client), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "first,iterations,") || !strings.HasPrefix(lines[1], "small,  40,") ||
		!strings.HasPrefix(lines[2], "big,  60,") {
		t.Errorf("the client printed:\n%s", client)
	}
}

// TestPairRefusals: one side cannot run the test. Both sides must end with an error that says so.
func TestPairRefusals(t *testing.T) {
	tests := []struct {
		name           string
		server, client string
		want           [2]error
	}{
		{"transport lacks the operation", "", "-t put_lat -x tcp -d lo -D short", [2]error{ucs.ErrUnsupported, ucs.ErrUnsupported}},
		{"no such device on the server", "-d none", "-t am_lat -x tcp -d lo", [2]error{ucs.ErrNoDevice, ucs.ErrNoDevice}},
		{"no such transport", "", "-t am_lat -x none -d lo", [2]error{ucs.ErrNoDevice, ucs.ErrNoDevice}},
		{"message too long", "", "-t am_lat -x tcp -d lo -s 100000", [2]error{ucs.ErrUnsupported, ucs.ErrUnsupported}},
		{"header too long", "", "-t ucp_am_lat -H 100000", [2]error{ucs.ErrInvalidParam, ucs.ErrInvalidParam}},
		{"nothing would arrive", "", "-t ucp_am_lat -o", [2]error{ucs.ErrInvalidParam, ucs.ErrInvalidParam}},
		{"batch on one side only", "", "-b " + filepath.Join("testdata", "first"), [2]error{errNoTest, ucs.ErrConnectionReset}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, errs := sides(t, strings.Fields(tt.server), strings.Fields(tt.client))
			for i, side := range []string{"server", "client"} {
				if !errors.Is(errs[i], tt.want[i]) {
					t.Errorf("%s: got %v, want %v", side, errs[i], tt.want[i])
				}
			}
		})
	}
}

// TestClientDisappears closes the connection between server and client during a test: the server
// must detect that, although its endpoint still works.
func TestClientDisappears(t *testing.T) {
	t.Setenv("UCX_TLS", "tcp")
	t.Setenv("UCX_NET_DEVICES", "lo")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		so, err := parseOptions(nil)
		if err != nil {
			done <- err
			return
		}
		g, err := accept(so, l, io.Discard)
		if err == nil {
			err = errors.Join(runAll(so, g, newPrinter(so, g, io.Discard, io.Discard)), g.close())
		}
		done <- err
	}()
	o, err := parseOptions([]string{"-t", "tag_bw", "127.0.0.1", "-p", strconv.Itoa(l.Addr().(*net.TCPAddr).Port)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := connectClient(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := adjust(&o.params); err != nil {
		t.Fatal(err)
	}
	r, err := newUCP(newTeam(g, 1), &o.params, newCounters(&o.params, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.barrier(r.thread(0).progress); err != nil { // the first stage begins here
		t.Fatal(err)
	}
	g.close()
	if err := <-done; !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("got %v, want %v", err, ucs.ErrConnectionReset)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}

func TestBatchErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "batch")
	for text, want := range map[string]error{
		"a -m cuda\n":            errLeftOut,
		"a -n 5\n":               errNoTest,
		"a -t tag_lat -s 8 -i 4": ucs.ErrInvalidParam,
		"a -Z\n":                 nil,
		"a -b other\n":           nil,
	} {
		if err := os.WriteFile(file, []byte("\n# comment\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := defaultParams()
		err := runBatches(alone{}, &p, []string{file}, &printer{w: io.Discard})
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), "batch, line 3: ") {
			t.Errorf("%q: got %v, want %v", text, err, want)
		}
	}
	p := defaultParams()
	if err := runBatches(alone{}, &p, []string{file + ".none"}, &printer{w: io.Discard}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
