//go:build linux

package rc_test

import (
	"errors"
	"testing"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// FuzzMessages sends arbitrary messages, each with its length before it, on a connection that the
// bits of pauses pause and resume, from outside and from its handler. If breaks is set, the
// connection ends afterwards. All messages acknowledged to the peer must be delivered, unless the
// peer broke the protocol, and another connection must still work.
func FuzzMessages(f *testing.F) {
	defer log.SetLogger(log.SetLogger(zap.NewNop()))
	f.Add([]byte{1, 0xe0, 1, 0x20, 1, 0x40, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, uint64(0), false)
	f.Add([]byte{2, 0x61, 5, 2, 0xa1, 5, 2, 0xc1, 5, 1, 1}, uint64(5), false)
	f.Add([]byte{1, 1, 1, 1, 2, 0x41, 1, 1, 0xe0, 1, 0x81, 1, 1, 1, 0x21}, ^uint64(0), true)
	f.Add([]byte{1, 1, 1, 1, 1, 1, 1, 1}, uint64(0xf), true)
	fuzztest.Run(f, func(t *testing.T, b []byte, pauses uint64, breaks bool) {
		r := newRig(t, verbstest.Port{})
		x := fixture(t, r, "RC_VERBS_RX_QUEUE_LEN", "4", "RC_VERBS_TX_QUEUE_LEN", "2", "RC_VERBS_RX_MAX_POLL", "1")
		h := x.Open(t)
		hostile, good := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
		source := hostile.ep.(uct.Connection)
		turn := func(k int) {
			if pauses>>(k%64)&1 != 0 {
				source.PauseSource()
			} else {
				source.ResumeSource()
			}
		}
		var heard, known [2]int // messages received and acknowledged: of hostile, of good
		h.Handle(t, 1, func(src *uct.Source, _ []byte, _ *uct.AMDesc) error {
			if src.Owner == good.ep.(uct.SourceOwner) {
				heard[1]++
				return nil
			}
			heard[0]++
			turn(32 + heard[0])
			return nil
		})
		for k := 0; len(b) > 0 && h.Failed(hostile.ep) == nil; k++ {
			msg := b[1 : 1+min(int(b[0]), len(b)-1)]
			b = b[1+len(msg):]
			if s := hostile.send(msg); s == verbs.WCSuccess && len(msg) > 0 && msg[0] < 0xe0 && msg[0]&0x1f == 1 {
				known[0]++
			}
			turn(k)
			h.Worker.Progress()
			hostile.Received()
		}
		if breaks && h.Failed(hostile.ep) == nil {
			check(t, hostile.Ctx.Close())
			ucttest.Until(t, "the end", func() bool {
				hostile.ep.Check(nil) // an earlier acknowledgment may satisfy the first one
				return h.Failed(hostile.ep) != nil
			}, h)
		}
		good.Host = nil // without a host, sends do not make progress on h
		for range 3 {
			good.tell(1, 2, 3)
			known[1]++
		}
		ucttest.Until(t, "all messages", func() bool {
			source.ResumeSource()
			return heard == known || errors.Is(h.Failed(hostile.ep), ucs.ErrMessageTruncated) && heard[1] == known[1]
		}, h)
		if err := h.Failed(good.ep); err != nil {
			t.Error(err)
		}
	})
}
