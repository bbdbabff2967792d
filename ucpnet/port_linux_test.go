package ucpnet

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
)

// TestPorts checks that each client within a process has a port of its own while its connection
// exists.
func TestPorts(t *testing.T) {
	c := &Config{Worker: worker(t, "self,tcp")}
	l := listening(t, c)
	seen := make(map[string]bool)
	for range 50 {
		a := dialed(t, c, l.Addr())
		b, err := l.AcceptUCP()
		if err != nil {
			t.Fatal(err)
		}
		at := a.LocalAddr().String()
		if b.RemoteAddr().String() != at || seen[at] || a.local.Port() == 0 || at == l.Addr().String() {
			t.Errorf("the client is at %s, its server sees %v; another one was there: %t", at, b.RemoteAddr(), seen[at])
		}
		if s := b.String(); !strings.HasPrefix(s, "ucp "+l.Addr().String()+"->"+at+" over self") {
			t.Errorf("the connection is %s", s)
		}
		seen[at] = true
		b.Close()
	}
}

// TestLocalAddr checks that clients within a process get the local address that they ask for, or an
// error.
func TestLocalAddr(t *testing.T) {
	w := worker(t, "self,tcp")
	l := listening(t, &Config{Worker: w})
	from := func(at string) (net.Conn, error) {
		return (&Config{Worker: w, LocalAddr: at}).DialContext(t.Context(), "ucp", l.Addr().String())
	}
	a, err := from("127.0.0.9:7")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.LocalAddr().String() != "127.0.0.9:7" {
		t.Errorf("the client is at %v", a.LocalAddr())
	}
	if b, err := from("127.0.0.9:7"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second one there: %v, %v", b, err)
	}
	b, err := from("127.0.0.9")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if at := b.LocalAddr().(*Addr); at.Addr().String() != "127.0.0.9" || at.Port() == 0 || at.Port() == 7 {
		t.Errorf("the client is at %v", at)
	}
	if b, err := from("192.0.2.1"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("from an address of another machine: %v, %v", b, err)
	}
	if b, err := from("::1"); err == nil {
		b.Close()
		t.Error("from an address of the other family")
	}
	a.(*Conn).CloseWait(t.Context())
	c, err := from("127.0.0.9:7")
	if err != nil {
		t.Fatalf("when the first is gone: %v", err)
	}
	c.Close()
}

// TestLocalAddrBetween checks the same for clients of another worker, which connect through a
// connection manager.
func TestLocalAddrBetween(t *testing.T) {
	for _, tls := range []string{"tcp", "posix,tcp"} {
		l := listening(t, &Config{Worker: worker(t, tls)})
		client := &Config{Worker: worker(t, tls)}
		for _, at := range []string{"127.0.0.9", "127.0.0.10:0", "[127.0.0.11]"} {
			client.LocalAddr = at
			accepted := accepting(t, l)
			a := dialed(t, client, l.Addr())
			b := <-accepted
			if b == nil {
				t.Fatal("not accepted")
			}
			want := strings.TrimSuffix(strings.Trim(at, "[]"), ":0")
			if got := a.LocalAddr().(*Addr).Addr().String(); got != want || b.RemoteAddr().String() != a.LocalAddr().String() {
				t.Errorf("%s from %s: the client is at %v, and at %v for the server", tls, at, a.LocalAddr(), b.RemoteAddr())
			}
			if _, err := a.Write([]byte("hello")); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(b, make([]byte, 5)); err != nil {
				t.Error(err)
			}
			a.Close()
			b.Close()
		}
	}
}
