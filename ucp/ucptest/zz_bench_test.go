package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

func BenchmarkTagRate(b *testing.B) {
	for _, name := range []string{"self", "posix"} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, byName(b, name))
			from, to := r.pair()
			ep := from.connect(to)
			src, dst := make([]byte, 8), make([]byte, 8)
			n := 0
			p := &ucp.RequestParams{OnTagRecv: func(r *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) { n--; r.Free() }}
			burst := func() {
				for range 32 {
					if req, _ := to.TagRecv(1, ucp.FullMask, dst, p); req != nil {
						n++
					}
				}
				for range 32 {
					ep.TagSend(1, src, nil)
				}
				for n > 0 {
					to.Progress()
				}
			}
			burst()
			for b.Loop() {
				burst()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/msg")
		})
	}
}
