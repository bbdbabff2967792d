package ucp

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
)

// TestEndBeforeRelease: an endpoint by socket address whose peer closes it in good order ends with
// ErrPeerClosed also where the end of the connection is noticed before the peer's message that says
// so, which comes by a lane.
func TestEndBeforeRelease(t *testing.T) {
	for _, tls := range []string{"tcp", "posix,tcp"} {
		t.Run(tls, func(t *testing.T) {
			server, client := newTargetFor(t, FeatureTag, "TLS", tls, "NET_DEVICES", "lo"), newTargetFor(t, FeatureTag, "TLS", tls, "NET_DEVICES", "lo")
			progress := func(done func() bool) {
				t.Helper()
				for !done() {
					server.Progress()
					client.Progress()
				}
			}
			var accepted *Endpoint
			l, err := server.NewListener(ListenerParams{Addr: netip.MustParseAddrPort("127.0.0.1:0"), OnAccept: func(ep *Endpoint) { accepted = ep }})
			if err != nil {
				t.Fatal(err)
			}
			ep, err := client.NewEndpoint(EndpointParams{RemoteAddr: l.Addr(), ErrMode: ErrModePeer})
			if err != nil {
				t.Fatal(err)
			}
			progress(func() bool {
				return accepted != nil && ep.handshake.Stage == connect.Open && ep.needs == 0 && accepted.needs == 0
			})
			var buf [8]byte
			r, err := server.TagRecv(1, FullMask, buf[:], nil)
			if err != nil {
				t.Fatal(err)
			}
			if s, err := ep.TagSend(1, buf[:], nil); err != nil {
				t.Fatal(err)
			} else {
				progress(func() bool { return r.Done() && (s == nil || s.Done()) })
			}

			closing, err := ep.CloseAsync(nil)
			if err != nil || closing == nil {
				t.Fatalf("closing: %v, %v", closing, err)
			}
			for ep.life.Stage != life.Leaving { // it has said that it is released, and disconnected
				server.Progress() // which answers the flush
				client.Progress()
			}
			accepted.onDisconnected(nil, nil)
			progress(func() bool { return accepted.Err() != nil })
			if err := accepted.Err(); !errors.Is(err, ucs.ErrPeerClosed) {
				t.Errorf("the accepted endpoint: %v", err)
			}
			if err := accepted.Close(); err != nil {
				t.Error(err)
			}
			progress(closing.Done)
			if err := closing.Wait(context.Background()); err != nil {
				t.Error(err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
