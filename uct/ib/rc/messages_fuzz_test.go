//go:build linux

package rc_test

import (
	"errors"
	"testing"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// FuzzMessages: messages of any content, each with its length before it, on a connection that is
// paused and resumed by the bits of pauses, from outside and by its handler, and breaks at the
// end if that is wanted. What the peer knows to have arrived is delivered, unless it has broken
// the rules, and another connection works on.
func FuzzMessages(f *testing.F) {
	defer log.SetLogger(log.SetLogger(zap.NewNop()))
	f.Add([]byte{1, 0xe0, 1, 0x20, 1, 0x40, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, uint64(0), false)
	f.Add([]byte{2, 0x61, 5, 2, 0xa1, 5, 2, 0xc1, 5, 1, 1}, uint64(5), false)
	f.Add([]byte{1, 1, 1, 1, 2, 0x41, 1, 1, 0xe0, 1, 0x81, 1, 1, 1, 0x21}, ^uint64(0), true)
	f.Add([]byte{1, 1, 1, 1, 1, 1, 1, 1}, uint64(0xf), true)
	f.Fuzz(func(t *testing.T, b []byte, pauses uint64, breaks bool) {
		r := newRig(t, verbstest.Port{})
		x := fixture(t, r, "RC_VERBS_RX_QUEUE_LEN", "4", "RC_VERBS_TX_QUEUE_LEN", "2", "RC_VERBS_RX_MAX_POLL", "1")
		h := x.Open(t)
		hostile, good := newScriptedPeer(t, r, h), newScriptedPeer(t, r, h)
		source := hostile.ep.(uct.SourcePauser)
		turn := func(k int) {
			if pauses>>(k%64)&1 != 0 {
				source.PauseSource()
			} else {
				source.ResumeSource()
			}
		}
		var heard, known [2]int // of the hostile one, of the good one
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
			hostile.heard()
		}
		if breaks && h.Failed(hostile.ep) == nil {
			check(t, hostile.ctx.Close())
			ucttest.Until(t, "the end", func() bool {
				hostile.ep.(uct.Checker).Check(nil) // the first may be answered by what went well before
				return h.Failed(hostile.ep) != nil
			}, h)
		}
		good.host = nil // so that nothing is received meanwhile
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
