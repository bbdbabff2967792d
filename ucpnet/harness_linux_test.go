package ucpnet

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// patient is a time that suffices for everything that must happen.
const patient = time.Minute

// worker opens a worker with the given transports, and settings given as names and values.
func worker(t testing.TB, tls string, settings ...string) *ucp.Worker {
	t.Helper()
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	for k, s := range append([]string{"TLS", tls}, settings...) {
		if k%2 == 0 {
			if err := cfg.Modify(s, append([]string{"TLS", tls}, settings...)[k+1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureStream | ucp.FeatureAM}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	w, err := ctx.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); ctx.Close() })
	return w
}

// listening returns a listener that is closed at the end of the test.
func listening(t testing.TB, c *Config) *Listener {
	t.Helper()
	l, err := c.Listen(context.Background(), "ucp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*Listener)
}

// connected returns the two ends of a connection: the client's and the server's.
func connected(t testing.TB, client, server *Config) (*Conn, *Conn) {
	t.Helper()
	l := listening(t, server)
	accepted := accepting(t, l)
	a := dialed(t, client, l.Addr())
	b := <-accepted
	if b == nil {
		t.Fatal("nobody was accepted")
	}
	l.Close()
	return a, b
}

func dialed(t testing.TB, c *Config, to net.Addr) *Conn {
	t.Helper()
	conn, err := c.DialContext(context.Background(), "ucp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patient))
	t.Cleanup(func() { conn.Close() })
	return conn.(*Conn)
}

// accepting accepts a connection on a goroutine of its own, which also progresses the server's
// worker.
func accepting(t testing.TB, l *Listener) <-chan *Conn {
	l.SetDeadline(time.Now().Add(patient))
	conns := make(chan *Conn, 1)
	go func() {
		defer close(conns)
		c, err := l.AcceptUCP()
		if err != nil {
			return // the client has failed, or waits for it
		}
		c.SetDeadline(time.Now().Add(patient))
		t.Cleanup(func() { c.Close() })
		conns <- c
	}()
	return conns
}

// way is a kind of connection: its transports and workers.
type way struct {
	name, tls string
	workers   int // 0: Pipe within one worker; 1: both ends at one worker
}

var ways = []way{
	{"self", "self", 0},
	{"self by address", "self,tcp", 1},
	{"shm", "posix,cma,tcp", 2},
	{"tcp", "tcp", 2},
}

// ends returns the ends of a connection.
func (way way) ends(t testing.TB, settings ...string) (*Conn, *Conn) {
	t.Helper()
	client := &Config{Worker: worker(t, way.tls, settings...)}
	if way.workers == 0 {
		a, b, err := client.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []net.Conn{a, b} {
			c.SetDeadline(time.Now().Add(patient))
			t.Cleanup(func() { c.Close() })
		}
		return a.(*Conn), b.(*Conn)
	}
	server := client
	if way.workers > 1 {
		server = &Config{Worker: worker(t, way.tls, settings...)}
	}
	return connected(t, client, server)
}

// overAll runs a test over each kind of connection.
func overAll(t *testing.T, test func(t *testing.T, a, b *Conn)) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			a, b := way.ends(t)
			test(t, a, b)
		})
	}
}
