//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// TestNoAllocationsMixed checks the same for messages over rc and ud together, and over two
// devices.
func TestNoAllocationsMixed(t *testing.T) {
	skipUnderRace(t)
	frailNet.renew(t, "frail0", "frail1")
	for _, tr := range []transport{
		onFabric("rc and ud", "ib").pairwise().frugally(),
		onFabric("two rails", "rc_v").using("frail0:1,frail1:1").with(setting{"MAX_RNDV_RAILS", "2"}, setting{"MAX_EAGER_RAILS", "2"}, setting{"MAX_RMA_RAILS", "2"}).pairwise().frugally(),
	} {
		t.Run(tr.name, func(t *testing.T) {
			r := newRig(t, tr)
			a, b := r.oneSidedPair()
			ep := a.connect(b)
			w := r.unpack(ep, b.expose(make([]byte, 1<<20), 0))
			r.warm(ep, b)
			for _, n := range []int{8, 2000, 50_000, 1 << 20} {
				src, buf := make([]byte, n), make([]byte, n)
				r.allocatesNothing(sizeText("message", n), func() {
					recv, rerr := b.TagRecv(1, ucp.FullMask, buf, nil)
					send, serr := ep.TagSend(1, src, nil)
					r.spin(send, serr)
					r.spin(recv, rerr)
				})
				r.allocatesNothing(sizeText("put and get", n), func() {
					put, err := ep.Put(src, w.addr, w.key, nil)
					r.spin(put, err)
					get, err := ep.Get(buf, w.addr, w.key, nil)
					r.spin(get, err)
					flush, err := ep.Flush(nil)
					r.spin(flush, err)
				})
			}
		})
	}
}
