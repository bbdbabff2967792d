//go:build linux

package ucptest

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// BenchmarkTag measures a message from TagRecv and TagSend to the completion of both, one at a
// time, with both workers on one goroutine: the cost of the library without waiting for another
// CPU.
func BenchmarkTag(b *testing.B) {
	for _, name := range []string{"self", "posix", "posix and cma", "tcp"} {
		for _, size := range []int{8, 4 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				r := newRig(b, byName(b, name))
				from, to := r.pair()
				ep := from.connect(to)
				src, dst := make([]byte, size), make([]byte, size)
				once := func() {
					rreq, err := to.TagRecv(1, ucp.FullMask, dst, nil)
					if err != nil {
						b.Fatal(err)
					}
					sreq, err := ep.TagSend(1, src, nil)
					if err != nil {
						b.Fatal(err)
					}
					for !rreq.Done() || !sreq.Done() {
						to.Progress()
						from.Progress()
					}
					rreq.Free()
					sreq.Free()
				}
				once()
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					once()
				}
			})
		}
	}
}

// BenchmarkActive is BenchmarkTag for active messages: from AMSend to the end of the
// handler.
func BenchmarkActive(b *testing.B) {
	for _, name := range []string{"self", "posix", "tcp"} {
		for _, size := range []int{8, 4 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				r := newRig(b, byName(b, name))
				from, to := r.activePair()
				ep := from.connect(to)
				handled := false
				to.handle(1, func(m *ucp.AMMessage) error {
					handled = true
					return nil
				})
				src := make([]byte, size)
				once := func() {
					handled = false
					sreq, err := ep.AMSend(1, nil, src, nil)
					if err != nil {
						b.Fatal(err)
					}
					for !handled || !sreq.Done() {
						to.Progress()
						from.Progress()
					}
					sreq.Free()
				}
				once()
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					once()
				}
			})
		}
	}
}

// BenchmarkTagRate measures messages in bursts, which share the cost of a round of progress.
func BenchmarkTagRate(b *testing.B) {
	const burst = 32 // fits into a ring at once
	for _, name := range []string{"self", "posix"} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, byName(b, name))
			from, to := r.pair()
			ep := from.connect(to)
			src, dst := make([]byte, 8), make([]byte, 8)
			open := 0
			params := &ucp.RequestParams{OnTagRecv: func(r *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
				if open--; err != nil {
					b.Error(err)
				}
				r.Free()
			}}
			once := func() {
				for range burst {
					req, err := to.TagRecv(1, ucp.FullMask, dst, params)
					if err != nil {
						b.Fatal(err)
					}
					if req != nil {
						open++
					}
				}
				for range burst {
					if req, err := ep.TagSend(1, src, nil); req != nil || err != nil {
						b.Fatalf("a short message takes a request, or fails: %v", err)
					}
				}
				for open > 0 {
					to.Progress()
				}
			}
			once()
			for b.Loop() {
				once()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/burst, "ns/msg")
		})
	}
}

// BenchmarkProgress measures a round without events.
func BenchmarkProgress(b *testing.B) {
	for _, name := range []string{"self", "posix", "posix and cma", "tcp"} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, byName(b, name))
			from, to := r.pair()
			from.connect(to)
			r.settle()
			for b.Loop() {
				from.Progress()
			}
		})
	}
}

// BenchmarkConnect measures a pair of endpoints from their creation to their end, with one message
// that the receiver acknowledges.
func BenchmarkConnect(b *testing.B) {
	for _, name := range []string{"self", "posix", "tcp"} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, byName(b, name))
			from, to := r.pair()
			src, dst := make([]byte, 8), make([]byte, 8)
			end := func(req *ucp.Request, err error) {
				if err != nil {
					b.Fatal(err)
				}
				for !req.Done() {
					to.Progress()
					from.Progress()
				}
				req.Free()
			}
			toward := func(side *side, addr []byte) *ucp.Endpoint {
				ep, err := side.NewEndpoint(ucp.EndpointParams{Address: addr})
				if err != nil {
					b.Fatal(err)
				}
				return ep
			}
			there, back := to.address(), from.address()
			once := func() {
				ep := toward(from, there)
				rreq, err := to.TagRecv(1, ucp.FullMask, dst, nil)
				if err != nil {
					b.Fatal(err)
				}
				end(ep.TagSendSync(1, src, nil))
				end(rreq, nil)
				other := toward(to, back) // the endpoint that the request has opened
				end(ep.CloseAsync(nil))
				end(other.CloseAsync(nil))
			}
			once()
			for b.Loop() {
				once()
			}
		})
	}
}
