package main

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// ways are settings for both sides. A listener needs tcp.
var ways = map[string]string{"shared memory": "posix,tcp", "tcp": "tcp"}

// TestProgram runs the program, which starts itself as the server.
func TestProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "rpc")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	want := regexp.MustCompile(`^5 goroutines have made 20 calls each in \S+: \d+ a second
fill has returned 64 MiB, over [a-z, ]+
wait has ended at its deadline
sing: the server says: no method "sing"
$`)
	for name, tls := range ways {
		t.Run(name, func(t *testing.T) {
			t.Setenv("UCX_TLS", tls)
			out, err := exec.Command(program, "-callers", "5", "-calls", "20").CombinedOutput()
			if err != nil || !want.Match(out) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// started returns a server that runs until it is stopped, or the test ends.
func started(t *testing.T, limit time.Duration) (_ *server, stop func()) {
	t.Helper()
	s, err := newServer(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	s.limit = limit
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.run(ctx)
	}()
	stop = func() {
		cancel()
		<-over
		s.close()
	}
	t.Cleanup(stop)
	return s, stop
}

// dialed returns a client, which is closed after the test.
func dialed(t *testing.T, addr netip.AddrPort) *client {
	t.Helper()
	c, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Closing fails if the server is already gone.
		if err := c.close(context.Background()); err != nil && c.ep.Err() == nil {
			t.Error(err)
		}
		if len(c.calls) != 0 {
			t.Errorf("%d calls are left", len(c.calls))
		}
	})
	return c
}

// TestCalls: clients get correct results of all lengths.
func TestCalls(t *testing.T) {
	for name, tls := range ways {
		t.Run(name, func(t *testing.T) {
			t.Setenv("UCX_TLS", tls)
			s, _ := started(t, timeLimit)
			ended := make(chan error)
			const clients = 3
			for range clients {
				c := dialed(t, s.addr())
				go func() { ended <- c.many(t.Context(), 10, 20) }()
			}
			for range clients {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			c := dialed(t, s.addr())
			for n := 0; n <= 4<<20; n = n*4 + 1 {
				result, err := c.call(t.Context(), "upper", bytes.Repeat([]byte("x"), n))
				if err != nil || !bytes.Equal(result, bytes.Repeat([]byte("X"), n)) {
					t.Errorf("%d bytes: %d have come back, or others, %v", n, len(result), err)
				}
			}
		})
	}
}

// TestErrors checks the errors of calls without a result.
func TestErrors(t *testing.T) {
	s, _ := started(t, timeLimit)
	c := dialed(t, s.addr())
	short, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		ctx    context.Context
		method string
		want   error
	}{
		{short, "wait", context.DeadlineExceeded},
		{canceled, "wait", context.Canceled},
		{t.Context(), "sing", remoteError(`no method "sing"`)},
		{t.Context(), "fill", remoteError("fill takes a number of 8 bytes, not 0")},
	} {
		if _, err := c.call(tc.ctx, tc.method, nil); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.method, err, tc.want)
		}
	}
	if _, err := c.call(t.Context(), "upper", nil); err != nil {
		t.Error(err)
	}
}

// TestLimit: a call without a deadline, or with a later one, gets that of the server.
func TestLimit(t *testing.T) {
	s, _ := started(t, timeLimit)
	if _, err := s.call(t.Context(), callHeader{method: "wait", limit: 1}, nil); err != context.DeadlineExceeded {
		t.Error(err)
	}
	s.limit = 1
	for _, limit := range []time.Duration{0, -1, time.Hour} {
		if _, err := s.call(t.Context(), callHeader{method: "wait", limit: limit}, nil); err != context.DeadlineExceeded {
			t.Errorf("%v: %v", limit, err)
		}
	}
}

// TestLostServer: calls fail if there is no server, or if it has exited.
func TestLostServer(t *testing.T) {
	s, stop := started(t, timeLimit)
	c := dialed(t, s.addr())
	if _, err := c.call(t.Context(), "upper", nil); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := c.call(context.Background(), "wait", nil)
		ended <- err
	}()
	stop()
	if err := <-ended; err == nil {
		t.Error("a call has succeeded, of a server that is gone")
	}
	<-c.lost.Done() // an answer may have come before the failure
	if _, err := dialed(t, s.addr()).call(t.Context(), "upper", nil); !errors.Is(err, ucs.ErrNotConnected) {
		t.Errorf("%v, want %v", err, ucs.ErrNotConnected)
	}
}

// TestClientThatDoesNotTake: a client that does not receive its results is disconnected.
func TestClientThatDoesNotTake(t *testing.T) {
	s, _ := started(t, time.Millisecond)
	c := dialed(t, s.addr())
	if _, err := c.worker.NewAMQueue(ucp.AMQueueParams{ID: idAnswer, Offers: true}); err != nil { // this queue is never read
		t.Fatal(err)
	}
	_, err := c.call(t.Context(), "fill", []byte{0, 0, 0, 1, 0, 0, 0, 0})
	if err == nil || c.ep.Err() == nil {
		t.Errorf("the client is served still: %v", err)
	}
}

// TestStrangers: malformed messages are dropped, and valid calls still work.
func TestStrangers(t *testing.T) {
	s, _ := started(t, timeLimit)
	c := dialed(t, s.addr())
	for _, m := range []struct {
		id     uint16
		header []byte
		flags  ucp.AMSendFlags
	}{
		{idCall, nil, ucp.AMSendReply},
		{idCall, make([]byte, 15), ucp.AMSendReply},
		{idCall, callHeader{method: "upper"}.bytes(), 0},
		{idAnswer, nil, ucp.AMSendReply},
		{7, nil, 0},
	} {
		if err := c.ep.AMSendWait(t.Context(), m.id, m.header, nil, m.flags); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.call(t.Context(), "upper", nil); err != nil {
		t.Error(err)
	}
}
