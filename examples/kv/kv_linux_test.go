package main

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// ways are settings for both sides. A listener needs tcp.
var ways = map[string]string{"shared memory": "posix,tcp", "tcp": "tcp"}

// TestProgram runs the program, which starts itself as the server, and as a client.
func TestProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "kv")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	want := regexp.MustCompile(`^4096 slots, over [a-z, ]+
color is red, version 2
color is green, version 4
blue for version 2: the value has another version
8 goroutines have added 1 to a counter 250 times each: 2000
$`)
	for name, tls := range ways {
		t.Run(name, func(t *testing.T) {
			t.Setenv("UCX_TLS", tls)
			out, err := exec.Command(program).CombinedOutput()
			if err != nil || !want.Match(out) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	t.Run("commands", func(t *testing.T) {
		s := started(t, tableSlots)
		for _, tc := range []struct{ command, want string }{
			{"put color red", "version 2\n"},
			{"swap color 2 green", "version 4\n"},
			{"get color", "green\tversion 4\n"},
			{"swap color 2 blue", "kv: the value has another version\n"},
			{"get shape", "kv: no such key\n"},
			{"drop color", "kv: [\"drop\" \"color\"] is not one of: get KEY, put KEY VALUE, swap KEY VERSION VALUE\n"},
		} {
			args := append([]string{"-connect", s.addr().String()}, strings.Fields(tc.command)...)
			out, err := exec.Command(program, args...).CombinedOutput()
			if string(out) != tc.want || (err != nil) != strings.HasPrefix(tc.want, "kv: ") {
				t.Errorf("%s: %v, %q, want %q", tc.command, err, out, tc.want)
			}
		}
	})
}

// started returns a server that runs until the test ends.
func started(t *testing.T, slots uint64) *server {
	t.Helper()
	s, _ := stoppable(t, slots)
	return s
}

// stoppable returns a server that runs until it is stopped, or the test ends.
func stoppable(t *testing.T, slots uint64) (_ *server, stop func()) {
	t.Helper()
	s, err := newServer(netip.MustParseAddrPort("127.0.0.1:0"), slots)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.worker.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-over
	}
	t.Cleanup(func() {
		stop()
		s.close()
	})
	return s, stop
}

// dialed returns a client, which is closed after the test.
func dialed(t *testing.T, s *server) *client {
	t.Helper()
	c, err := dial(t.Context(), s.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestClients: no update is lost when clients change the same keys.
func TestClients(t *testing.T) {
	for name, tls := range ways {
		t.Run(name, func(t *testing.T) {
			t.Setenv("UCX_TLS", tls)
			s := started(t, 3) // so few that keys collide
			const clients, times = 3, 100
			keys := []string{"one", "two", "three"}
			ended := make(chan error)
			var last *client
			for range clients {
				c := dialed(t, s)
				last = c
				for _, key := range keys {
					go func() { ended <- c.add(t.Context(), key, times) }()
				}
			}
			for range clients * len(keys) {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			for _, key := range keys {
				value, version, err := last.get(t.Context(), key)
				if value != strconv.Itoa(clients*times) || version != 2*clients*times || err != nil {
					t.Errorf("%s is %s, version %d, %v", key, value, version, err)
				}
			}
			if _, err := last.put(t.Context(), "four", "4"); err != errFull {
				t.Errorf("a fourth key: %v, want %v", err, errFull)
			}
			if _, _, err := last.get(t.Context(), "four"); err != errFull {
				t.Errorf("a fourth key: %v, want %v", err, errFull)
			}
		})
	}
}

// TestIdleServer: over shared memory, clients can use the table while the server does nothing.
func TestIdleServer(t *testing.T) {
	t.Setenv("UCX_TLS", "posix,tcp")
	s, stop := stoppable(t, tableSlots)
	c, err := dial(t.Context(), s.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.shared.close()
	for !strings.Contains(c.ways(), "posix") { // the connection begins over tcp
		c.worker.Progress()
	}
	if _, err := c.put(t.Context(), "first", "1"); err != nil { // by all that is used below
		t.Fatal(err)
	}
	stop()
	if err := c.add(t.Context(), "key", 10); err != nil {
		t.Error(err)
	}
	if value, version, err := c.get(t.Context(), "key"); value != "10" || version != 20 || err != nil {
		t.Errorf("%s, version %d, %v", value, version, err)
	}
}

// TestWriterThatStays: reading a slot that another client is writing waits until its context ends.
func TestWriterThatStays(t *testing.T) {
	c := dialed(t, started(t, 1))
	if _, err := ucp.CompareSwapWait[uint64](t.Context(), c.ep, c.table.addr, c.key, 0, 1); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, _, err := c.get(ctx, "key")
		ended <- err
	}()
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

// TestNobodyThere: connecting without a server returns an error.
func TestNobodyThere(t *testing.T) {
	s := started(t, 1)
	addr := s.addr()
	if err := s.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t.Context(), addr); !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("%v, want %v", err, ucs.ErrNotConnected)
	}
}
