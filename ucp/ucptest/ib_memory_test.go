//go:build linux

package ucptest

import (
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// TestEndpointMemoryRDMA checks that 500 endpoints on each side, created, used and closed over rc,
// ud and both, leave the heap and the device nearly unchanged. A datagram connection of each
// endpoint stays, which answers its peer for minutes (UD_LINGER_TIMEOUT) and is much smaller than
// the endpoint, and some device memory for all of them. The heap includes that of the device
// without a kernel.
func TestEndpointMemoryRDMA(t *testing.T) {
	skipUnderRace(t)
	const all, atOnce = 500, 25
	const mostBytes, mostObjects = 2 * all * 768, 8 // may be left
	for _, tls := range []string{"rc_v", "ud_v", "ib"} {
		t.Run(tls, func(t *testing.T) {
			dev := frailNet.renew(t, "frail0")["frail0"]
			// Few receive buffers, but enough that no datagram is lost.
			r := newRig(t, onFabric("frail", tls).using("frail0:1").with(
				setting{"RC_VERBS_RX_QUEUE_LEN", "256"}, setting{"UD_VERBS_RX_QUEUE_LEN", "256"}))
			a, b := r.pair()
			mode := ucp.EndpointParams{ErrMode: ucp.ErrModePeer}
			round := func() {
				var there, back [atOnce]*ucp.Endpoint
				for k := range there {
					there[k], back[k] = a.connectWith(b, mode), b.connectWith(a, mode)
				}
				for k := range there {
					r.exchange(there[k], b, back[k], a)
				}
				for k := range there {
					r.must(there[k].CloseAsync(r.closings()[k%2]))
					r.finish(back[k].CloseAsync(force))
				}
				r.endpoints(0, a, b)
			}
			count := func() (heap int64, objects, mapped int) {
				r.settle() // for completions that the devices still deliver
				var m runtime.MemStats
				runtime.GC()
				runtime.GC() // frees what the first collection left to finalizers
				runtime.ReadMemStats(&m)
				return int64(m.HeapAlloc), dev.Objects(), dev.Mapped()
			}
			for range 4 { // tables and free lists reach their final sizes
				round()
			}
			heap, objects, mapped := count()
			for range all / atOnce {
				round()
			}
			h, o, m := count()
			t.Logf("%d bytes, %d objects and %d mappings more than %d, %d and %d", h-heap, o-objects, m-mapped, heap, objects, mapped)
			if h-heap > mostBytes || o-objects > mostObjects || m != mapped {
				t.Errorf("%d ends have left %d bytes, at most %d may stay, %d objects, at most %d, and %d mappings", 2*all, h-heap, mostBytes, o-objects, mostObjects, m-mapped)
			}
		})
	}
}
