//go:build linux

package ucptest

import (
	"errors"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestDeviceGivenUp is the group of the suite about receives that are given up, on soft-RoCE.
func TestDeviceGivenUp(t *testing.T) {
	k := slices.IndexFunc(suite, func(g caseGroup) bool { return g.name == "cancellation" })
	for number, tr := range []transport{cable(t, "rc_v").pairwise(), cable(t, "ud_v")} {
		if tr.turn = 1 + number; deviceLong {
			tr.turn = 0
		}
		runGroups(t, []transport{tr}, suite[k:k+1])
	}
}

// TestDeviceCancel cancels receives while their messages arrive over soft-RoCE: when nothing has
// come, when so much of the message is in the buffer, when all is. The receive has the message,
// or the next one of the same tag gets it: whole, once, and nothing is written any more into the
// buffer of a receive that was canceled. One message of the transport is received in a round,
// and without rendezvous, so that the long ones are seen half received: most of the receives
// that are canceled have to be.
func TestDeviceCancel(t *testing.T) {
	rounds := 3
	if deviceLong || needtest.Full {
		rounds = 25
	}
	// Short, the longest in one packet over ud and over rc, and fragments.
	sizes := []int{0, 8, 4000, 8000, 8192, 8300, 30_000, 60_000, 100_000, 300_000}
	for _, tls := range []string{"rc_v", "ud_v"} {
		for _, scheme := range []struct {
			name     string
			settings []setting
		}{
			{"fragments", []setting{{"RNDV_THRESH", "inf"}, {"RC_VERBS_RX_MAX_POLL", "1"}, {"UD_VERBS_RX_MAX_POLL", "1"}}},
			{"rendezvous", []setting{{"RNDV_THRESH", "16k"}}},
		} {
			t.Run(tls+"/"+scheme.name, func(t *testing.T) {
				r, a, b := onDevices(t, tls, scheme.settings...)
				ep := a.connect(b)
				r.warm(ep, b)
				var ends cancelEnds
				n := 0
				for range rounds {
					for _, size := range sizes {
						for _, part := range []int{0, 1, size / 3, size / 2, size - 1} {
							n++
							r.cancelAmid(ep, b, ucp.Tag(n), size, part, &ends)
						}
					}
				}
				t.Logf("of %d: %+v", n, ends)
				fragments := scheme.name == "fragments"
				if half := rounds * 3; fragments && ends.half < half || ends.unmatched == 0 || ends.done == 0 {
					t.Errorf("%+v: nothing is shown by that, want %d canceled half way", ends, half)
				}
				if held := b.Stats().UnexpectedBytes; held != 0 {
					t.Errorf("%d bytes are held", held)
				}
				r.clean(a, b)
			})
		}
	}
}

// cancelEnds counts how receives have ended that were canceled: of those that ended with
// Canceled the ones with and without a part of the message, of the others those that had all of
// it before, and those that could not be canceled.
type cancelEnds struct{ unmatched, half, done, kept int }

// cancelAmid sends a message to b, whose receive is canceled when that part of it has come. Now
// and then the next receive is canceled as well.
func (r *rig) cancelAmid(ep *ucp.Endpoint, b *side, tag ucp.Tag, size, part int, ends *cancelEnds) {
	r.Helper()
	src := ucttest.Pattern(size, uint64(tag))
	for k := range src {
		src[k] |= 1 // to be told from a buffer that is empty
	}
	start := ep.TagSend
	if tag%4 == 3 {
		start = ep.TagSendSync
	}
	send := r.started(start(tag, src, &ucp.RequestParams{Flags: ucp.OpNoImmediate}))
	buf := make([]byte, size)
	recv := r.started(b.TagRecv(tag, ucp.FullMask, buf, &ucp.RequestParams{Flags: ucp.OpNoImmediate}))
	for again := tag%5 < 2; ; again = false {
		come := func() bool { return recv.Done() || part <= 0 || part <= size && buf[part-1] != 0 }
		r.until("a part of the message", come)
		whole, some := recv.Done(), size > 0 && buf[0] != 0
		b.Cancel(recv)
		err := r.finish(recv, nil)
		if err == nil {
			if whole {
				ends.done++
			} else {
				ends.kept++
			}
			break
		}
		if !errors.Is(err, ucs.ErrCanceled) {
			r.Fatal(err)
		}
		if some {
			ends.half++
		} else {
			ends.unmatched++
		}
		canceled := buf
		clear(canceled)
		defer func() { ucttest.SameBytes(r, "buffer of a receive that was canceled", canceled, make([]byte, size)) }()
		buf = make([]byte, size)
		if again { // before the rest of the message has come, or not
			part = 0
			recv = r.started(b.TagRecv(tag, ucp.FullMask, buf, &ucp.RequestParams{Flags: ucp.OpNoImmediate}))
			continue
		}
		r.must(b.TagRecv(tag, ucp.FullMask, buf, nil))
		break
	}
	ucttest.SameBytes(r, sizeText("message", size), buf, src)
	r.must(send, nil)
	if info, again := b.TagPeek(0, 0); again {
		r.Fatalf("a message of %d bytes comes twice: %+v", size, info)
	}
}
