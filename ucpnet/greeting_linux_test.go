package ucpnet

import (
	"context"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// silent starts to connect to a listener and sends nothing more once the listener has the
// connection: the listener's answer does not reach the client.
func silent(t *testing.T, w *ucp.Worker, l *Listener) *ucp.Endpoint {
	t.Helper()
	had := l.beingMade()
	ep, err := w.NewEndpoint(ucp.EndpointParams{RemoteAddr: oneWay(t, l.addr.AddrPort), ErrMode: ucp.ErrModePeer, ClientID: Greeting})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client is there", func() bool { w.Progress(); return l.beingMade() > had })
	return ep
}

// oneWay returns an address that forwards what a client sends to a listener, and nothing back.
func oneWay(t *testing.T, to netip.AddrPort) netip.AddrPort {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(to.Addr(), 0)))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-ended })
	go func() {
		defer close(ended)
		client, err := l.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { client.Close() }) // ends the copy; the clean-up above waits for it
		server, err := net.Dial("tcp", to.String())
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		io.Copy(server, client)
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func (l *Listener) beingMade() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.connecting)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// progressed keeps a goroutine in Run on a worker until the end of the test.
func progressed(t *testing.T, w *ucp.Worker) {
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { w.Run(ctx); close(ran) }()
	t.Cleanup(func() { cancel(); <-ran })
}

// TestGivenUp checks that clients that give up before their connection is established free their
// places in the backlog.
func TestGivenUp(t *testing.T) {
	client, stranger := &Config{Worker: worker(t, "tcp")}, worker(t, "tcp")
	server := &Config{Worker: worker(t, "tcp"), Backlog: 2}
	l := listening(t, server)
	progressed(t, server.Worker)
	for range 3 * 2 {
		silent(t, stranger, l).Close()
		eventually(t, "the place is free", func() bool { return l.beingMade() == 0 })
	}
	dialed(t, client, l.Addr())
}

// TestSilentClients checks that clients that send nothing do not block other clients for long.
func TestSilentClients(t *testing.T) {
	client, stranger := &Config{Worker: worker(t, "tcp")}, worker(t, "tcp")
	server := &Config{Worker: worker(t, "tcp"), Backlog: 2}
	l := listening(t, server)
	progressed(t, server.Worker)
	for range 2 {
		silent(t, stranger, l)
	}
	l.mu.Lock()
	for k := range l.connecting {
		l.connecting[k].since = time.Now().Add(-2 * briskTime)
	}
	l.mu.Unlock()
	accepted := accepting(t, l)
	dialed(t, client, l.Addr())
	if c := <-accepted; c == nil {
		t.Error("the good client was not accepted")
	}
	if n := l.beingMade(); n != 1 {
		t.Errorf("%d connections are being made, want that of the younger silent client", n)
	}
}

// TestListenerOfThisWorker checks which listener of the worker an address leads to.
func TestListenerOfThisWorker(t *testing.T) {
	for _, x := range []struct {
		at, to string
		leads  bool
	}{
		{"127.0.0.1:5", "127.0.0.1:5", true},
		{"127.0.0.1:5", "127.0.0.1:6", false},
		{"127.0.0.1:5", "127.0.0.2:5", false},
		{"0.0.0.0:5", "127.0.0.1:5", true},
		{"0.0.0.0:5", "[::1]:5", false},
		{"[::]:5", "[::1]:5", true},
		{"[::]:5", "127.0.0.1:5", true},
		{"0.0.0.0:5", "192.0.2.1:5", false},
	} {
		l := &Listener{addr: &Addr{netip.MustParseAddrPort(x.at)}}
		h := &hub{listeners: []*Listener{l}}
		if got := h.listenerAt(netip.MustParseAddrPort(x.to)); (got == l) != x.leads {
			t.Errorf("listening at %s, %s leads there: %t", x.at, x.to, got == l)
		}
	}
}
