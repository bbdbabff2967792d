package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// TestKeptMessagesCount: messages that handlers keep are charged to their sender, and bounded. A
// connection that brings more is dropped. Over shared memory messages are dropped, and not handled,
// until there is room again.
func TestKeptMessagesCount(t *testing.T) {
	const limit, size = 1 << 20, 4096
	for _, from := range []string{"a connection", "shared memory"} {
		t.Run(from, func(t *testing.T) {
			v := newTargetFor(t, targetFeatures|FeatureAM, "MAX_UNEXP_BYTES", "1m")
			v.log.Allow("dropping the connection that holds the most")
			v.log.Allow("active message dropped")
			var kept []*AMMessage
			if err := v.SetAMHandler(AMHandlerParams{ID: targetID, Handler: func(m *AMMessage) error {
				m.Keep()
				kept = append(kept, m)
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
			before := ledger.Total(ledger.Bytes)
			c, src := newConn(), (*uct.Source)(nil)
			if from == "a connection" {
				src = &c.Source
			}
			packet := append(proto.AMHeader{ID: targetID}.Append(nil), make([]byte, size)...)
			h := v.am.onAMSingle()
			for range 4 * limit / size {
				if c.dropped != nil {
					break
				}
				if err := h(src, packet, nil); err != nil {
					t.Fatal(err)
				}
			}
			n := len(kept) * size
			if n < limit/2 || n > limit+limit/8 {
				t.Errorf("%d bytes are kept, the limit is %d", n, limit)
			}
			if (c.dropped != nil) != (src != nil) {
				t.Errorf("the connection: %v", c.dropped)
			}
			for _, m := range kept {
				m.Release()
			}
			v.accounts.Reclaim()
			if after := ledger.Total(ledger.Bytes); after != before {
				t.Errorf("%d bytes are charged, before %d", after, before)
			}
			if kept = nil; src == nil {
				if err := h(nil, packet, nil); err != nil {
					t.Fatal(err)
				}
				if len(kept) != 1 {
					t.Error("there is room again, and the message was not handled")
				}
				kept[0].Release()
			}
		})
	}
}
