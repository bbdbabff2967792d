//go:build linux

package rc

import "github.com/ucx-go/ucx/ucs"

// Both directions of a connection use one queue pair. An endpoint without error handling is
// closed without notice to the peer, so the peer may go on: it sends, or it flushes to learn
// that its last messages have arrived. C UCX flushes when it closes, and asks for few
// completions before. Without this side's queue pair nothing acknowledges those requests, and
// with the retry count that C asks of soft-RoCE the peer waits forever. C keeps such endpoints
// until their worker is destroyed (ucp_ep_disconnected). Here the transport keeps the latest
// maxLingering of them, without those whose peer is known to be gone, and receives what arrives
// on them. A departed peer is not reported, so with each new lingering endpoint the peers of
// some others are checked. A program that goes on closing endpoints keeps no more of them than
// peers need. Those of a program that has stopped closing endpoints stay until the interface is
// closed.

const (
	maxLingering = 256 // endpoints that linger, at most
	askLingering = 2   // peers checked with each new one, so that all are checked
)

// Linger implements uct.Lingerer.
func (e *endpoint) Linger() {
	i := e.iface
	if e.closed || e.lost() || !e.connected {
		e.Close()
		return
	}
	e.closed, e.userData = true, nil // the owner is notified of nothing any more
	i.endpoints--
	for range min(askLingering, i.lingering.Len()) {
		o := i.lingering.Next()
		i.lingering.Pass()
		o.Check(nil) // which ends the endpoint if it fails
	}
	i.lingering.Add(&e.lingers, e)
	i.endLingering(maxLingering)
}

// endLingering ends the lingering endpoints that were checked longest ago, so that at most n
// remain.
func (i *iface) endLingering(n int) {
	for i.lingering.Len() > n {
		e := i.lingering.Next()
		e.stop(ucs.ErrCanceled)
		e.destroy(ucs.ErrCanceled)
	}
}
