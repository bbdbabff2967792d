package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
)

// TestKeepOfGone: a message that a handler keeps, although its connection has ended inside the
// handler, leaves no charge, connection or account behind when it is released.
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
					from.Account() // as after an earlier charge
					err = v.am.arrived(from, nil, h, packet[proto.AMHeaderSize:], nil, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				kept.Release()
				v.accounts.Reclaim()
			}
			round() // the unnamed account keeps a reserve
			bytes, sources, accounts := ledger.Total(ledger.Bytes), v.accounts.Holders(), ledger.OpenAccounts()
			for range 10 {
				round()
			}
			if n := ledger.Total(ledger.Bytes); n != bytes {
				t.Errorf("%d bytes are charged, %d were before", n, bytes)
			}
			if v.accounts.Holders() != sources || ledger.OpenAccounts() != accounts {
				t.Errorf("%d sources and %d accounts, %d and %d were before", v.accounts.Holders(), ledger.OpenAccounts(), sources, accounts)
			}
		})
	}
}
