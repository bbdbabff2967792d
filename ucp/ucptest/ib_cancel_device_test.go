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

// TestDeviceGivenUp runs the group of the suite about canceled receives on soft-RoCE.
func TestDeviceGivenUp(t *testing.T) {
	k := slices.IndexFunc(suite, func(g caseGroup) bool { return g.name == "cancellation" })
	for number, tr := range []transport{cable(t, "rc_v").pairwise(), cable(t, "ud_v")} {
		if tr.turn = 1 + number; deviceLong {
			tr.turn = 0
		}
		runGroups(t, []transport{tr}, suite[k:k+1])
	}
}

// TestDeviceCancel cancels receives while their messages arrive over soft-RoCE: before the message,
// after a part of it, and when it is complete. Either the receive has the message, or the next
// receive of the same tag gets it, whole and once, and nothing more is written into the buffer of
// the canceled receive. Without rendezvous a round receives one message of the transport, so that
// receives are canceled half way: the test requires that most are.
func TestDeviceCancel(t *testing.T) {
	rounds := 3
	if deviceLong || needtest.Full {
		rounds = 25
	}
	// Short, the longest that fit into one packet over ud and rc, and fragments.
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

// cancelEnds counts the results of canceled receives. Of those that ended with Canceled: unmatched
// had no part of the message, half had one. Of the others: done had the message before, kept could
// not be canceled.
type cancelEnds struct{ unmatched, half, done, kept int }

// cancelAmid sends a message to b, and cancels its receive when the given part has arrived. In some
// cases it cancels the next receive as well.
func (r *rig) cancelAmid(ep *ucp.Endpoint, b *side, tag ucp.Tag, size, part int, ends *cancelEnds) {
	r.Helper()
	src := ucttest.Pattern(size, uint64(tag))
	for k := range src {
		src[k] |= 1 // differs from an empty buffer
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
		if again { // before or after the rest of the message arrives
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
