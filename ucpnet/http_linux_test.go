package ucpnet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/rpc"
	"sync/atomic"
	"testing"
)

// serving starts an HTTP server, and returns its address and a client.
func serving(t *testing.T, way way, h http.Handler) (string, *http.Client) {
	client := &Config{Worker: worker(t, way.tls)}
	server := client
	if way.workers > 1 {
		server = &Config{Worker: worker(t, way.tls)}
	}
	l := listening(t, server)
	s := &http.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	transport := &http.Transport{DialContext: client.DialContext, DisableCompression: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String(), &http.Client{Transport: transport}
}

// byAddress are the kinds of connections that have addresses.
var byAddress = ways[1:]

// TestHTTP checks several requests on one connection, large bodies in both directions at once, and
// requests that are canceled in the middle.
func TestHTTP(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		io.Copy(w, r.Body)
	})
	mux.HandleFunc("/sum", func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		io.Copy(h, r.Body)
		fmt.Fprintf(w, "%x", h.Sum(nil))
	})
	gone := make(chan struct{}, 1)
	mux.HandleFunc("/forever", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(body); err != nil {
				break
			}
		}
		gone <- struct{}{}
	})
	for _, way := range byAddress {
		t.Run(way.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patient)
			defer cancel()
			var dials atomic.Int32
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
				if !i.Reused {
					dials.Add(1)
				}
			}})
			url, client := serving(t, way, mux)
			post := func(path string, body []byte) []byte {
				r, err := http.NewRequestWithContext(ctx, "POST", url+path, bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				res, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				got, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			for range 100 {
				if got := post("/echo", []byte("hello")); string(got) != "hello" {
					t.Fatalf("got %q", got)
				}
			}
			if n := dials.Load(); n != 1 {
				t.Errorf("%d connections for requests one after the other", n)
			}
			if got := post("/echo", body); !bytes.Equal(got, body) {
				t.Errorf("%d bytes of %d came back", len(got), len(body))
			}
			if got, want := post("/sum", body), fmt.Sprintf("%x", sha256.Sum256(body)); string(got) != want {
				t.Errorf("sum %s, want %s", got, want)
			}

			once, giveUp := context.WithCancel(ctx)
			r, err := http.NewRequestWithContext(once, "GET", url+"/forever", nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := io.CopyN(io.Discard, res.Body, 1<<20); err != nil {
				t.Fatal(err)
			}
			giveUp()
			if _, err := io.Copy(io.Discard, res.Body); !errors.Is(err, context.Canceled) {
				t.Errorf("a body that was given up ends with %v", err)
			}
			<-gone
		})
	}
}

// Adder is a service of net/rpc.
type Adder struct{}

func (Adder) Add(n [2]int, sum *int) error {
	*sum = n[0] + n[1]
	return nil
}

func TestRPC(t *testing.T) {
	overAll(t, func(t *testing.T, a, b *Conn) {
		s := rpc.NewServer()
		if err := s.Register(Adder{}); err != nil {
			t.Fatal(err)
		}
		go s.ServeConn(b)
		c := rpc.NewClient(net.Conn(a))
		defer c.Close()
		for k := range 100 {
			var sum int
			if err := c.Call("Adder.Add", [2]int{k, 1}, &sum); err != nil || sum != k+1 {
				t.Fatalf("%d + 1 = %d, %v", k, sum, err)
			}
		}
	})
}
