//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// The rules of the API for connections, by the numbers of the list of its subtleties. The
// suite has the same over all transports.

// TestSubtlety51: port 0 gives the real port; exactly one handler must be given.
func TestSubtlety51(t *testing.T) { testListenParams(t, connTransports[0]) }

// TestSubtlety52: a request is accepted on another worker, is consumed by a failure as
// well, and a rejected client hears that by its handler.
func TestSubtlety52(t *testing.T) {
	t.Run("another worker", func(t *testing.T) { testAcceptElsewhere(t, connTransports[0], ucp.ErrModePeer) })
	t.Run("failure", func(t *testing.T) { testAcceptAnotherMode(t, connTransports[0]) })
	t.Run("reject", func(t *testing.T) { testConnReject(t, connTransports[0], ucp.ErrModePeer) })
}

// TestSubtlety53: that nobody listens is told to the handler, not by NewEndpoint.
func TestSubtlety53(t *testing.T) { testConnRefused(t, connTransports[0], ucp.ErrModePeer) }

// TestSubtlety54: the client's id arrives only if the endpoint was asked to tell it.
func TestSubtlety54(t *testing.T) { testClientID(t, connTransports[0]) }

// TestSubtlety55: accepted endpoints outlive the listener.
func TestSubtlety55(t *testing.T) { testListenerGone(t, connTransports[0]) }

// TestSubtlety56: endpoints by worker address have no socket addresses.
func TestSubtlety56(t *testing.T) { testConnAddresses(t, connTransports[0]) }
