//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// The rules of the API for connections, by their numbers in the list of subtleties. The suite has
// the same tests over all transports.

// TestSubtlety51 checks that port 0 results in the real port, and that exactly one handler is
// required.
func TestSubtlety51(t *testing.T) { testListenParams(t, connTransports[0]) }

// TestSubtlety52 checks that a request can be accepted on another worker, that a failed accept
// consumes it too, and that the error handler of a rejected client is called.
func TestSubtlety52(t *testing.T) {
	t.Run("another worker", func(t *testing.T) { testAcceptElsewhere(t, connTransports[0], ucp.ErrModePeer) })
	t.Run("failure", func(t *testing.T) { testAcceptAnotherMode(t, connTransports[0]) })
	t.Run("reject", func(t *testing.T) { testConnReject(t, connTransports[0], ucp.ErrModePeer) })
}

// TestSubtlety53 checks that the handler, not NewEndpoint, reports that there is no listener.
func TestSubtlety53(t *testing.T) { testConnRefused(t, connTransports[0], ucp.ErrModePeer) }

// TestSubtlety54 checks that the client's id arrives only if the client's endpoint was asked to
// send it.
func TestSubtlety54(t *testing.T) { testClientID(t, connTransports[0]) }

// TestSubtlety55 checks that accepted endpoints outlive the listener.
func TestSubtlety55(t *testing.T) { testListenerGone(t, connTransports[0]) }

// TestSubtlety56 checks that endpoints by worker address have no socket addresses.
func TestSubtlety56(t *testing.T) { testConnAddresses(t, connTransports[0]) }
