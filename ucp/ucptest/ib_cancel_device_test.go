//go:build linux

package ucptest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestDeviceCancel cancels receives while their messages arrive over soft-RoCE, after a number of
// the receiver's rounds that differs, as fragments come a few in a round. A receive has the
// message, or the next one of the same tag gets it: whole, once, and nothing is written any more
// into the buffer of a receive that was canceled.
func TestDeviceCancel(t *testing.T) {
	rounds := 6
	if deviceLong {
		rounds = 100
	}
	// Short, the longest in one packet over ud and over rc, in several, and a rendezvous.
	sizes := []int{0, 8, 4000, 8000, 8192, 8300, 30_000, 30_000, 60_000, 100_000, 1 << 20}
	for _, tls := range []string{"rc_v", "ud_v"} {
		t.Run(tls, func(t *testing.T) {
			r, a, b := onDevices(t, tls)
			ep := a.connect(b)
			r.warm(ep, b)
			canceled, n := 0, 0
			for round := range rounds {
				for _, size := range sizes {
					n++
					if r.cancelAmid(ep, b, ucp.Tag(n), size, round*n%23) {
						canceled++
					}
				}
			}
			t.Logf("%d of %d canceled", canceled, n)
			r.clean(a, b)
		})
	}
}

// cancelAmid sends a message to b, whose receive is canceled after so many rounds, and reports
// whether that had not got it.
func (r *rig) cancelAmid(ep *ucp.Endpoint, b *side, tag ucp.Tag, size, rounds int) bool {
	r.Helper()
	src, first := ucttest.Pattern(size, uint64(tag)), make([]byte, size)
	recv := r.started(b.TagRecv(tag, ucp.FullMask, first, nil))
	send, err := ep.TagSend(tag, src, nil)
	if err != nil {
		r.Fatal(err)
	}
	for range rounds {
		r.progress()
	}
	b.Cancel(recv)
	switch err := r.finish(recv, nil); {
	case err == nil:
		r.must(send, nil)
		ucttest.SameBytes(r, "message", first, src)
		if _, again := b.TagPeek(tag, ucp.FullMask); again {
			r.Errorf("a message of %d bytes comes twice", size)
		}
		return false
	case !errors.Is(err, ucs.ErrCanceled):
		r.Fatal(err)
	}
	clear(first)
	second := make([]byte, size)
	r.must(b.TagRecv(tag, ucp.FullMask, second, nil))
	r.must(send, nil)
	ucttest.SameBytes(r, "message behind a receive that was canceled", second, src)
	ucttest.SameBytes(r, "buffer of a receive that was canceled", first, make([]byte, size))
	return true
}
