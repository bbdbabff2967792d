package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
)

// TestKeepOfGone: a message that is kept although the connection that it came by is gone, by
// the handler say, is paid for as long as it is kept, and leaves nothing behind.
func TestKeepOfGone(t *testing.T) {
	for name, plain := range map[string]bool{"single": true, "any": false} {
		t.Run(name, func(t *testing.T) {
			v := newTargetFor(t, targetFeatures|FeatureAM)
			var l *located
			var kept *AMMessage
			if err := v.SetAMHandler(AMHandlerParams{ID: targetID, Handler: func(m *AMMessage) error {
				m.Keep()
				kept = m
				l.Gone()
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
			round := func() {
				l = newLocated("192.0.2.7:77", false)
				h := proto.AMHeader{ID: targetID}
				packet := append(h.Append(nil), make([]byte, 100)...)
				var err error
				if plain {
					err = v.am.onAMSingle()(&l.Source, packet, nil)
				} else {
					from := v.accounts.sourceOf(&l.Source)
					from.account() // as after anything that was charged
					err = v.am.arrived(from, nil, h, packet[proto.AMHeaderSize:], nil, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				kept.Release()
				v.accounts.trim()
			}
			round() // what the unnamed account keeps
			bytes, sources, accounts := ledger.Total(ledger.Bytes), v.accounts.sources, ledger.Number()
			for range 10 {
				round()
			}
			if n := ledger.Total(ledger.Bytes); n != bytes {
				t.Errorf("%d bytes are charged, %d were before", n, bytes)
			}
			if v.accounts.sources != sources || ledger.Number() != accounts {
				t.Errorf("%d sources and %d accounts, %d and %d were before", v.accounts.sources, ledger.Number(), sources, accounts)
			}
		})
	}
}
