package ucpnet

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRefused(t *testing.T) {
	client, server := &Config{Worker: worker(t, "tcp")}, &Config{Worker: worker(t, "tcp")}
	l := listening(t, server)
	l.Close()
	_, err := client.DialContext(t.Context(), "ucp", l.Addr().String())
	var op *net.OpError
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("nobody listens: %v", err)
	}
}

// TestBacklog checks that connections beyond the backlog are refused.
func TestBacklog(t *testing.T) {
	client, server := &Config{Worker: worker(t, "tcp")}, &Config{Worker: worker(t, "tcp"), Backlog: 2}
	l := listening(t, server)
	progressed(t, server.Worker)
	for range 2 {
		dialed(t, client, l.Addr())
	}
	if _, err := client.DialContext(t.Context(), "ucp", l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("one too many: %v", err)
	}
	for range 2 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	dialed(t, client, l.Addr())
}

func TestDialTimeout(t *testing.T) {
	client, server := &Config{Worker: worker(t, "tcp"), Timeout: 10 * time.Millisecond}, &Config{Worker: worker(t, "tcp")}
	l := listening(t, server) // nothing progresses its worker
	_, err := client.DialContext(t.Context(), "ucp", l.Addr().String())
	var timeout net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("nobody answers: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, c := range map[string]*Config{"another worker's listener": client, "its own": server} {
		if _, err := c.DialContext(ctx, "ucp", l.Addr().String()); !errors.Is(err, context.Canceled) {
			t.Errorf("a dial to %s that was given up: %v", what, err)
		}
	}
}

func TestAcceptEnds(t *testing.T) {
	l := listening(t, &Config{Worker: worker(t, "tcp")})
	l.SetDeadline(time.Now().Add(time.Millisecond))
	if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("at the deadline: %v", err)
	}
	l.SetDeadline(time.Time{})
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for _, way := range byAddress {
		t.Run(way.name, func(t *testing.T) {
			a, b := way.ends(t)
			if a.RemoteAddr().String() != b.LocalAddr().String() || a.LocalAddr().String() != b.RemoteAddr().String() {
				t.Errorf("%v to %v, and %v to %v", a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
			}
			if host, _, err := net.SplitHostPort(a.LocalAddr().String()); err != nil || host != "127.0.0.1" || a.LocalAddr().Network() != "ucp" {
				t.Errorf("%v of network %s", a.LocalAddr(), a.LocalAddr().Network())
			}
		})
	}
}

func TestBadAddresses(t *testing.T) {
	for _, tc := range [][2]string{{"udp", "127.0.0.1:1"}, {"ucp", "127.0.0.1"}, {"ucp6", "127.0.0.1:1"}, {"ucp", "127.0.0.1:-1"}} {
		if c, err := Dial(tc[0], tc[1]); err == nil {
			c.Close()
			t.Errorf("connected to %v", tc)
		}
		if l, err := Listen(tc[0], tc[1]); err == nil {
			l.Close()
			t.Errorf("listens at %v", tc)
		}
	}
	if _, err := (&Config{LocalAddr: "nowhere"}).DialContext(t.Context(), "ucp", "127.0.0.1:1"); err == nil {
		t.Error("connected from nowhere")
	}
}

// settled waits until the value of now is no larger than was.
func settled(t *testing.T, what string, was int, now func() int) {
	t.Helper()
	for range 10000 {
		if now() <= was {
			return
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	buf := make([]byte, 1<<16)
	t.Errorf("%d %s, there were %d\n%s", now(), what, was, buf[:runtime.Stack(buf, true)])
}

// TestNothingIsLeft checks that the shared worker, and all goroutines and descriptors, are released
// with the last connection and listener.
func TestNothingIsLeft(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := files()
	l, err := Listen("ucp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a, err := Dial("ucp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte(strings.Repeat("x", 100))); err != nil {
		t.Fatal(err)
	}
	if files() == before {
		t.Error("a worker without descriptors")
	}
	for _, c := range []interface{ Close() error }{l, a, b} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	settled(t, "goroutines", goroutines, runtime.NumGoroutine)
	settled(t, "descriptors", before, files)
	hubs.mu.Lock()
	defer hubs.mu.Unlock()
	if hubs.all[nil] != nil {
		t.Error("the shared worker is still there")
	}
}
