//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// TestNoAllocationsOneSided checks that in steady state a one-sided operation allocates nothing on
// either side, whatever its protocol.
func TestNoAllocationsOneSided(t *testing.T) {
	skipUnderRace(t)
	for _, tr := range rmaTransports {
		if !tr.frugal() {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			r := newRig(t, tr)
			a, b := r.oneSidedPair()
			ep := a.connect(b)
			w := r.unpack(ep, b.expose(make([]byte, 1<<20), 0))
			finish := r.spin
			called := &ucp.RequestParams{OnSend: func(*ucp.Request, error, any) {}}
			reply := &ucp.RequestParams{ReplyBuffer: make([]byte, 8)}
			operand := make([]byte, 8)
			type operation struct {
				name string
				run  func()
			}
			ops := []operation{
				{"flush", func() { finish(ep.Flush(nil)) }},
				{"worker flush", func() { finish(a.Flush(nil)) }},
				{"posted atomic", func() { finish(ep.Atomic(ucp.AtomicAdd, operand, w.addr, w.key, nil)); finish(ep.Flush(nil)) }},
				{"fetching atomic", func() { finish(ep.Atomic(ucp.AtomicAdd, operand, w.addr, w.key, reply)) }},
				{"compare-swap", func() { finish(ep.Atomic(ucp.AtomicCompareSwap, operand, w.addr, w.key, reply)) }},
				{"short atomic", func() { finish(ep.Atomic(ucp.AtomicOr, operand[:4], w.addr, w.key, nil)); finish(ep.Flush(nil)) }},
				{"fence", func() {
					finish(ep.Put(operand, w.addr, w.key, nil))
					if err := a.Fence(); err != nil {
						t.Fatal(err)
					}
					finish(ep.Put(operand, w.addr, w.key, nil))
					finish(ep.Flush(nil))
				}},
			}
			for _, n := range []int{8, 2000, 8192, 50_000, 1 << 20} {
				buf := make([]byte, n)
				half := [][]byte{buf[:n/2], buf[n/2:]}
				iov := &ucp.RequestParams{Buffer: ucp.IOV(half...)}
				ops = append(ops,
					operation{sizeText("put", n), func() { finish(ep.Put(buf, w.addr, w.key, nil)); finish(ep.Flush(nil)) }},
					operation{sizeText("put with callback", n), func() { finish(ep.Put(buf, w.addr, w.key, called)); finish(ep.Flush(nil)) }},
					operation{sizeText("scattered put", n), func() { finish(ep.Put(nil, w.addr, w.key, iov)); finish(ep.Flush(nil)) }},
					operation{sizeText("get", n), func() { finish(ep.Get(buf, w.addr, w.key, nil)) }},
					operation{sizeText("scattered get", n), func() { finish(ep.Get(nil, w.addr, w.key, iov)) }},
				)
			}
			for _, o := range ops {
				r.allocatesNothing(o.name, o.run)
			}
		})
	}
}
