package ucpnet

import (
	"io"
	"net"
	"path/filepath"
	"testing"
)

// benches are the connections to measure: those of this package, and sockets for comparison.
var benches = []struct {
	name string
	ends func(b *testing.B) (net.Conn, net.Conn)
}{
	{"self", func(b *testing.B) (net.Conn, net.Conn) { return ucpEnds(b, ways[0]) }},
	{"shm", func(b *testing.B) (net.Conn, net.Conn) { return ucpEnds(b, ways[2]) }},
	{"ucptcp", func(b *testing.B) (net.Conn, net.Conn) { return ucpEnds(b, ways[3]) }},
	{"unix", func(b *testing.B) (net.Conn, net.Conn) {
		return sockets(b, "unix", filepath.Join(b.TempDir(), "socket"))
	}},
	{"tcp", func(b *testing.B) (net.Conn, net.Conn) { return sockets(b, "tcp", "127.0.0.1:0") }},
}

func ucpEnds(b *testing.B, way way) (net.Conn, net.Conn) { return way.ends(b) }

func sockets(b *testing.B, network, address string) (net.Conn, net.Conn) {
	l, err := net.Listen(network, address)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial(network, l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(); s.Close() })
	return c, s
}

// BenchmarkRequest sends 64 bytes and waits for a reply of the same length.
func BenchmarkRequest(b *testing.B) {
	for _, bench := range benches {
		b.Run(bench.name, func(b *testing.B) {
			client, server := bench.ends(b)
			go func() {
				p := make([]byte, 64)
				for {
					if _, err := io.ReadFull(server, p); err != nil {
						return
					}
					if _, err := server.Write(p); err != nil {
						return
					}
				}
			}()
			p := make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(client, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTransfer sends a MiB and waits for a byte that confirms that it was read.
func BenchmarkTransfer(b *testing.B) {
	for _, bench := range benches {
		b.Run(bench.name, func(b *testing.B) {
			client, server := bench.ends(b)
			const size = 1 << 20
			go func() {
				p := make([]byte, size)
				for {
					if _, err := io.ReadFull(server, p); err != nil {
						return
					}
					if _, err := server.Write(p[:1]); err != nil {
						return
					}
				}
			}()
			p := make([]byte, size)
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(client, p[:1]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
