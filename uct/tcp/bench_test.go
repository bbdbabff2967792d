//go:build linux

package tcp

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// echo lets b answer every message of a, in another goroutine, until stop is called.
func echo(b *host, answer func()) (stop func()) {
	b.iface.SetAMHandler(1, func(*uct.Source, []byte, *uct.AMDesc) error {
		answer()
		return nil
	})
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !over.Load() {
			b.w.Progress()
		}
	}()
	return func() {
		over.Store(true)
		<-ended
	}
}

// pingPong measures a round trip of 8 bytes while both sides poll. The latency is half of it.
func pingPong(b *testing.B, x, y *host) {
	xy, yx := x.connect(y), y.connect(x)
	until(b, "connect", connected(xy, yx), x, y)
	stop := echo(y, func() { yx.AMShort(1, 0, nil, 0, nil) })
	defer stop()
	got := 0
	x.iface.SetAMHandler(1, func(*uct.Source, []byte, *uct.AMDesc) error { got++; return nil })
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		xy.AMShort(1, 0, nil, 0, nil)
		for got <= i {
			x.w.Progress()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/one-way")
}

// streaming measures b.N calls of send, each repeated until it is accepted, until all is written.
func streaming(b *testing.B, x, y *host, ep *endpoint, send func() error) {
	stop := echo(y, func() {})
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		for {
			err := send()
			if err == nil || err == ucs.InProgress {
				break
			}
			x.w.Progress()
		}
		if i%64 == 0 {
			x.w.Progress()
		}
	}
	for ep.Flush(uct.FlushLocal, nil) != nil {
		x.w.Progress()
	}
	b.StopTimer()
	stop()
}

// BenchmarkAMShortPingPong measures the latency over loopback.
func BenchmarkAMShortPingPong(b *testing.B) { pingPong(b, newHost(b, ""), newHost(b, "")) }

// BenchmarkAMShortRate streams 8-byte messages.
func BenchmarkAMShortRate(b *testing.B) {
	x, y, ep := pair(b)
	streaming(b, x, y, ep, func() error { return ep.AMShort(1, 0, nil, 0, nil) })
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
}

// BenchmarkAMZcopy streams messages from the user's memory.
func BenchmarkAMZcopy(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dK", size>>10), func(b *testing.B) {
			x, y, ep := pair(b)
			iov := []uct.IOV{{Data: make([]byte, size)}}
			b.SetBytes(int64(size))
			streaming(b, x, y, ep, func() error { return ep.AMZcopy(1, nil, iov, 0, nil) })
		})
	}
}

// BenchmarkPutZcopy streams 1 MiB puts, up to four at a time.
func BenchmarkPutZcopy(b *testing.B) {
	x, y, ep := pair(b)
	const size = 1 << 20
	target := make([]byte, size)
	mem, _ := y.md.Register(target, uct.AccessRemotePut)
	stop := echo(y, func() {})
	iov := []uct.IOV{{Data: make([]byte, size)}}
	under := 0
	c := uct.Completion{Owner: counter{&under}}
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for under >= 4 || ep.PutZcopy(iov, addressOf(target), nil, &c) != ucs.InProgress {
			x.w.Progress()
		}
		under++
		c.Count = 1
	}
	for under > 0 {
		x.w.Progress()
	}
	b.StopTimer()
	stop()
	y.md.Deregister(mem)
}

// counter counts down at each completion.
type counter struct{ n *int }

func (k counter) Completed(c *uct.Completion) { *k.n--; c.Count = 1 }

// BenchmarkIdleProgress measures a round with nothing to do, on a worker with
// many connections.
func BenchmarkIdleProgress(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d endpoints", n), func(b *testing.B) {
			x, y, _ := pair(b)
			for range n - 1 {
				ep := x.connect(y)
				until(b, "connect", func() bool { return ep.conn.state == stateConnected }, x, y)
			}
			for range 10 * hotRounds {
				x.w.Progress()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				x.w.Progress()
			}
		})
	}
}

// BenchmarkTLS measures the latency of 8 bytes, and the rate of 64 KiB, without TLS and with it.
func BenchmarkTLS(b *testing.B) {
	comps := map[string]uct.Component{"tcp": component{}, "tls": tlsComponent(b, certtest.New().Mutual("peer"))}
	for _, name := range []string{"tcp", "tls"} {
		open := func(b *testing.B) *host {
			return newHostOf(b, comps[name], "", fmt.Sprintf("TX_SEG_SIZE=%d", tlsSeg))
		}
		b.Run("latency/"+name, func(b *testing.B) { pingPong(b, open(b), open(b)) })
		b.Run("bandwidth/"+name, func(b *testing.B) {
			x, y := open(b), open(b)
			ep := x.connect(y)
			until(b, "connect", connected(ep), x, y)
			const size = 64 << 10
			var p uct.Packer = make(filler, tlsSeg)
			left := size
			b.SetBytes(size)
			streaming(b, x, y, ep, func() error {
				for left > 0 {
					n, err := ep.AMBcopy(1, p, 0, nil)
					if err != nil && err != ucs.InProgress {
						return err
					}
					left -= n
				}
				left = size
				return nil
			})
		})
	}
}

// filler packs its bytes.
type filler []byte

func (f filler) Pack(dst []byte) int { return copy(dst, f) }
