package ucptest

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// BenchmarkTag is a message from TagRecv and TagSend to the end of both, one at a
// time, with both workers on one goroutine: what the library costs without
// waiting for another CPU.
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

// BenchmarkProgress is a round with nothing to do.
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
