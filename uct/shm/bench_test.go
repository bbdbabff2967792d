//go:build linux

package shm

import (
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// benchPeer starts a process that progresses all the time, with endpoints in both directions.
func benchPeer(b *testing.B, transport string) (*ucttest.Host, uct.Endpoint, *goPeer) {
	b.Helper()
	h := (&ucttest.Fixture{Component: component{transport}}).Open(b)
	p := startPeer(b, transport)
	ep := h.NewEndpoint(b, uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
	p.do("connect %x %x", h.Iface.DeviceAddress(), h.Iface.Address())
	p.do("progress")
	return h, ep, p
}

func forTransports(b *testing.B, fn func(b *testing.B, transport string)) {
	for _, transport := range []string{posixName, sysvName} {
		b.Run(transport, func(b *testing.B) { fn(b, transport) })
	}
}

// BenchmarkPingPong measures a round trip of a short message between two processes: twice what
// ucx_perftest calls latency.
func BenchmarkPingPong(b *testing.B) {
	forTransports(b, func(b *testing.B, transport string) {
		h, ep, _ := benchPeer(b, transport)
		got := false
		h.Handle(b, 1, func(*uct.Source, []byte, *uct.AMDesc) error { got = true; return nil })
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			got = false
			if err := ep.AMShort(1, 0, nil, 0, nil); err != nil {
				b.Fatal(err)
			}
			for !got {
				h.Worker.Progress()
			}
		}
	})
}

// BenchmarkRate sends to a process that receives as fast as it can.
func BenchmarkRate(b *testing.B) {
	forTransports(b, func(b *testing.B, transport string) {
		for _, kind := range []string{"short 8", "bcopy 8", "bcopy 8256"} {
			b.Run(kind, func(b *testing.B) {
				_, ep, _ := benchPeer(b, transport)
				p := &ucttest.Packer{Data: make([]byte, 8)}
				if kind == "bcopy 8256" {
					p.Data = make([]byte, 8256)
				}
				send := func() error { return ep.AMShort(2, 0, nil, 0, nil) }
				if kind != "short 8" {
					send = func() error { _, err := ep.AMBcopy(2, p, 0, nil); return err }
				}
				b.SetBytes(int64(len(p.Data)))
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					for tries := 1; ; tries++ {
						err := send()
						if err == nil {
							break
						}
						if err != ucs.ErrNoResource {
							b.Fatal(err)
						}
						if tries%10000 == 0 {
							runtime.Gosched()
						}
					}
				}
			})
		}
	})
}

func BenchmarkIdleProgress(b *testing.B) {
	forTransports(b, func(b *testing.B, transport string) {
		h := (&ucttest.Fixture{Component: component{transport}}).Open(b)
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			h.Worker.Progress()
		}
	})
}

// BenchmarkRemote accesses memory of an idle process.
func BenchmarkRemote(b *testing.B) {
	forTransports(b, func(b *testing.B, transport string) {
		h := (&ucttest.Fixture{Component: component{transport}}).Open(b)
		p := startPeer(b, transport)
		ep := h.NewEndpoint(b, uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
		key, err := h.Domain.UnpackRkey(p.key)
		if err != nil {
			b.Fatal(err)
		}
		defer h.Domain.ReleaseRkey(key)
		buf := make([]byte, 1<<20)
		var old uint64
		for _, op := range []struct {
			name string
			size int
			run  func() error
		}{
			{"put 8", 8, func() error { return ep.(uct.RMA).PutShort(buf[:8], p.mem, key) }},
			{"put 1M", 1 << 20, func() error { return ep.(uct.RMA).PutShort(buf, p.mem, key) }},
			{"get 1M", 1 << 20, func() error { return ep.(uct.RMA).GetBcopy(into(buf), 1<<20, p.mem, key, nil) }},
			{"fadd", 8, func() error { return ep.(uct.Atomic).Atomic64Fetch(uct.AtomicAdd, 1, &old, p.mem, key, nil) }},
		} {
			b.Run(op.name, func(b *testing.B) {
				b.SetBytes(int64(op.size))
				b.ReportAllocs()
				for range b.N {
					if err := op.run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}

// into is an unpacker that copies.
type into []byte

func (d into) Unpack(src []byte) { cpu.Copy(d, src) }
