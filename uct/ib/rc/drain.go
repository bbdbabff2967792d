//go:build linux

package rc

import "github.com/ucx-go/ucx/ucs"

// Both directions of a connection use one queue pair. An endpoint without error handling is closed
// without notice to the peer, so the peer may continue: it sends, or it flushes to learn that its
// last messages have arrived. C UCX flushes when it closes, and asks for few completions before.
// Without this side's queue pair nothing acknowledges those requests, and with the retry count that
// C asks of soft-RoCE the peer waits forever. C keeps such endpoints until their worker is
// destroyed (ucp_ep_disconnected). Here the transport keeps the latest maxDraining of them, and
// receives what arrives on them. It ends those whose peer is known to be gone. The device does not
// report that a peer has departed, so with each new draining endpoint the peers of some others are
// checked. A program that continues to close endpoints keeps no more of them than peers need. If a
// program stops closing endpoints, its draining endpoints stay until the interface is closed.

const (
	maxDraining = 256 // endpoints that drain, at most
	askDraining = 2   // peers checked with each new draining endpoint, all in turn
)

// Drain implements uct.NetworkEndpoint.
func (e *endpoint) Drain() bool {
	i := e.iface
	if e.closed || e.lost() || !e.connected {
		e.Close()
		return true
	}
	e.closed, e.userData = true, nil // the owner gets no more notifications
	i.endpoints--
	for range min(askDraining, i.draining.Len()) {
		o := i.draining.Next()
		i.draining.Pass()
		o.Check(nil) // which ends the endpoint if it fails
	}
	i.draining.Add(&e.draining, e)
	i.endDraining(maxDraining)
	return true
}

// endDraining ends the draining endpoints that were checked longest ago, so that at most n
// remain.
func (i *iface) endDraining(n int) {
	for i.draining.Len() > n {
		e := i.draining.Next()
		e.stop(ucs.ErrCanceled)
		e.destroy(ucs.ErrCanceled)
	}
}
