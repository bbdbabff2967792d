//go:build linux

package ucptest

import (
	"errors"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestSegSize checks messages of all lengths with receive buffers of any size that C UCX accepts:
// smaller than UCP needs, odd, and larger than any message.
func TestSegSize(t *testing.T) {
	for _, name := range []string{"posix", "sysv"} {
		for _, size := range []string{"8", "64", "333", "65535", "64k", "65537", "1m"} {
			t.Run(name+"/"+size, func(t *testing.T) {
				r := newRig(t, byName(t, name).with(setting{strings.ToUpper(name) + "_SEG_SIZE", size}, setting{"RNDV_THRESH", "inf"}))
				a, b := r.pair()
				ep, err := a.NewEndpoint(ucp.EndpointParams{Address: b.address()})
				if size == "8" { // as in C
					if ep != nil || !errors.Is(err, ucs.ErrUnreachable) {
						t.Errorf("too small for a header: %v, %v", ep, err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				for i, n := range []int{0, 1, 99, 8000, 65535, 65536, 65537, 200_000} {
					r.sendAndTake(ep, b, ucp.Tag(i), ucttest.Pattern(n, uint64(i)))
				}
			})
		}
	}
}
