package ucpnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
)

// waits returns the number of connections that wait for Accept.
func (l *Listener) waits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

// reset checks that a read on a connection that the listener has dropped returns a connection
// reset.
func reset(t *testing.T, what string, c *Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%s reads %d bytes and %v", what, n, err)
	}
}

// TestPlaces: a source that occupies all places of the backlog loses one to another source. The
// client that loses its place gets a connection reset.
func TestPlaces(t *testing.T) {
	for _, way := range byAddress {
		t.Run(way.name, func(t *testing.T) {
			client := &Config{Worker: worker(t, way.tls)}
			server := &Config{Worker: client.Worker, Backlog: 3}
			if way.workers > 1 {
				server.Worker = worker(t, way.tls)
			}
			progressed(t, server.Worker)
			l := listening(t, server)
			var conns [3]*Conn
			for k := range conns {
				conns[k] = dialed(t, client, l.Addr())
			}
			eventually(t, "all wait for Accept", func() bool { return l.waits() == 3 })
			stranger := ledger.SourceOf(netip.MustParseAddr("192.0.2.1"), -1)
			for k, comes := range []bool{true, false} { // 3 and 0 places, then 2 and 1
				c := newConn(l.hub, time.Second)
				if l.admit(c, stranger) != comes {
					t.Errorf("client %d of another source is admitted: %t", k, !comes)
				}
			}
			if l.waits() != 2 {
				t.Fatalf("%d wait for Accept", l.waits())
			}
			var gone int
			for _, c := range conns {
				c.SetReadDeadline(time.Now().Add(patient))
				l.mu.Lock()
				waiting := false
				for _, q := range l.queue {
					waiting = waiting || q.remote.String() == c.local.String()
				}
				l.mu.Unlock()
				if !waiting {
					gone++
					reset(t, "who had to make room", c)
				}
			}
			if gone != 1 {
				t.Errorf("%d had to make room", gone)
			}
			l.Close()
			for _, c := range conns {
				reset(t, "who was not accepted", c)
			}
		})
	}
}

// TestUnfinished: a client is gone before its connection is established. The connection is accepted
// if the client has sent data, and dropped otherwise.
func TestUnfinished(t *testing.T) {
	server, client, err := (&Config{Worker: worker(t, "self")}).pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	defer server.Close()
	server.native = false
	gone := fmt.Errorf("the peer has closed the connection: %w", ucs.ErrConnectionReset)
	server.failed.Store(&gone)
	if server.brought() {
		t.Error("a client that has brought nothing is there")
	}
	if _, err := client.Write([]byte("something")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "something is there", server.brought)
	got := make([]byte, 4)
	for _, want := range []string{"some", "thin", "g"} {
		if n, err := server.Read(got); string(got[:n]) != want || err != nil {
			t.Errorf("read %q, %v, want %q", got[:n], err, want)
		}
	}
	server.native = true
	if server.brought() {
		t.Error("a client of this package that has not said how much it has written is there")
	}
}

// TestRestart checks that a server that closed its connections first can listen at its port again
// at once, as a server of package net can.
func TestRestart(t *testing.T) {
	t.Setenv("UCX_TLS", "tcp")
	client := &Config{Worker: worker(t, "tcp", "RNDV_SCHEME", "am")} // same as the server
	at := "127.0.0.1:0"
	for k := range 3 {
		s, err := Listen("ucp", at)
		if err != nil {
			t.Fatalf("start %d at %s: %v", k, at, err)
		}
		at = s.Addr().String()
		accepted := accepting(t, s.(*Listener))
		c := dialed(t, client, s.Addr())
		b := <-accepted
		if b == nil {
			t.Fatal("nobody was accepted")
		}
		s.Close()
		b.Close()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		c.Close()
	}
}

// TestAnswersAlone checks that a server that is not in a call of this package answers clients and
// receives what they send.
func TestAnswersAlone(t *testing.T) {
	for _, way := range ways[2:] {
		t.Run(way.name, func(t *testing.T) {
			t.Setenv("UCX_TLS", way.tls)
			l := listening(t, new(Config)) // nothing is accepted
			// The settings are those of the server.
			client := &Config{Worker: worker(t, way.tls, "RNDV_SCHEME", "am"), Timeout: patient}
			c := dialed(t, client, l.Addr())
			if _, err := c.Write([]byte("question")); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patient)
			defer cancel()
			if err := c.CloseWait(ctx); err != nil {
				t.Error(err)
			}
			b, err := l.AcceptUCP()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(b); string(got) != "question" || err != nil {
				t.Errorf("read %q, %v", got, err)
			}
			b.Close()
		})
	}
}

// TestErrorText checks that the text of an error names the cause once, and that errors.As finds the
// error of package ucp.
func TestErrorText(t *testing.T) {
	for _, way := range ways[2:] {
		t.Run(way.name, func(t *testing.T) {
			a, b := way.ends(t)
			b.abort()
			_, read := a.Read(make([]byte, 1))
			for what, err := range map[string]error{"read": read, "write": errOf(a.Write([]byte("x")))} {
				if want := fmt.Sprintf("%s ucp %v->%v: connection reset by peer", what, a.local, a.remote); err == nil || err.Error() != want {
					t.Errorf("%v\nwant %s", err, want)
				}
				var cause interface{ Cause() error }
				if !errors.Is(err, ucs.ErrConnectionReset) || !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &cause) || cause.Cause() == nil {
					t.Errorf("the cause is not to be found: %#v", err)
				}
			}
		})
	}
}

func errOf(_ int, err error) error { return err }

// TestShutdown checks that Shutdown waits for all closed connections, of all workers.
func TestShutdown(t *testing.T) {
	if err := Shutdown(t.Context()); err != nil {
		t.Fatalf("nothing was closed: %v", err)
	}
	for _, way := range ways[1:] {
		t.Run(way.name, func(t *testing.T) {
			a, b := way.ends(t)
			sent := words(100_000)
			if _, err := a.Write(sent); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patient)
			defer cancel()
			over := make(chan error, 1)
			go func() {
				a.Close()
				over <- Shutdown(ctx)
			}()
			if got, err := io.ReadAll(b); len(got) != len(sent) || err != nil {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			b.Close()
			if err := <-over; err != nil {
				t.Error(err)
			}
			if err := Shutdown(ctx); err != nil {
				t.Error(err)
			}
			if _, n := lingers(); n != 0 {
				t.Errorf("%d are left", n)
			}
		})
	}
}

// TestShutdownGivesUp checks that Shutdown returns the error of its context if connections are
// left.
func TestShutdownGivesUp(t *testing.T) {
	w := worker(t, "tcp")
	c := newConn(&hub{w: w}, time.Minute) // stands for one that is being closed
	lingering.mu.Lock()
	lingering.conns[c] = struct{}{}
	lingering.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	lingering.mu.Lock()
	delete(lingering.conns, c)
	lingering.mu.Unlock()
}
