package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/internal/ledger"
)

// TestClaim: a connection is charged to the peer as long as only the peer has opened the endpoint,
// and no longer when the application has the endpoint.
func TestClaim(t *testing.T) {
	v, peer := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo"), newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo")
	theirs, err := peer.NewEndpoint(EndpointParams{Address: v.own.address})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8)
	if _, err := v.TagRecv(1, FullMask, buf, nil); err != nil {
		t.Fatal(err)
	}
	sent, err := theirs.TagSendSync(1, buf, nil)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the message", sent.Done, v, peer)
	before := ledger.Total(ledger.Conns)
	if _, err := v.NewEndpoint(EndpointParams{Address: peer.own.address}); err != nil {
		t.Fatal(err)
	}
	if n := before - ledger.Total(ledger.Conns); n != 1 {
		t.Errorf("the application's endpoint takes %d connections from those of peers, of %d", n, before)
	}
}
