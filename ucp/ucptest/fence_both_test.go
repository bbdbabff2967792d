//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
)

// TestFenceBothWays: both sides write, fence and write again. The answers that one side sends to
// the other's writes must not wait behind its own fence.
func TestFenceBothWays(t *testing.T) {
	needtest.Goroutines(t)
	for _, tr := range rmaTransports {
		t.Run(tr.name, func(t *testing.T) {
			r := newRig(t, tr.with(setting{"ZCOPY_THRESH", "inf"}))
			a, b := r.oneSidedPair()
			ea, eb := a.connect(b), b.connect(a)
			const n = 4 * pieceSize
			ma, mb := make([]byte, n), make([]byte, n)
			wa, wb := r.unpack(ea, b.expose(mb, 0)), r.unpack(eb, a.expose(ma, 0))
			r.must(ea.Flush(nil))
			r.must(eb.Flush(nil))
			one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
			src := make([]byte, n)
			var reqs []*ucp.Request
			for _, x := range []struct {
				s  *side
				ep *ucp.Endpoint
				w  window
			}{{a, ea, wa}, {b, eb, wb}} {
				r.inTheCall(x.ep.Atomic(ucp.AtomicAdd, one, x.w.addr, x.w.key, nil))
				p, err := x.ep.Put(src, x.w.addr, x.w.key, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := x.s.Fence(); err != nil {
					t.Fatal(err)
				}
				q, err := x.ep.Put(src, x.w.addr, x.w.key, nil)
				if err != nil {
					t.Fatal(err)
				}
				reqs = append(reqs, p, q)
			}
			for i := 0; i < 200000; i++ {
				all := true
				for _, q := range reqs {
					all = all && q.Done()
				}
				if all {
					return
				}
				a.Progress()
				b.Progress()
			}
			for i, q := range reqs {
				at, _ := q.Attr()
				t.Errorf("put %d: done %v: %+v", i, q.Done(), at)
			}
		})
	}
}
