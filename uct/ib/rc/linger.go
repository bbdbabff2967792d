//go:build linux

package rc

import "github.com/ucx-go/ucx/ucs"

// Both directions of a connection are one queue pair. Who closes in error mode none tells
// nobody, and the peer goes on: it sends, or flushes to learn that what it sent last has
// arrived, as C UCX does when it closes, which asks for few completions before. Without
// our queue pair nothing answers that, and with the retries that C asks of soft-RoCE it
// waits for ever. C keeps such endpoints until their worker ends (ucp_ep_disconnected); here
// they are kept in the transport, which receives on them what comes: the last ones of them, and
// none whose peer is known to be gone. Nothing tells of that, so some are asked whenever another
// one comes. A program that goes on closing has no more of them than peers need; those of one
// that has stopped to stay until its interface is closed.

const (
	maxLingering = 256 // endpoints that are kept
	askLingering = 2   // peers that are asked for each that comes, so that it comes to all of them
)

// Linger implements uct.Lingerer.
func (e *endpoint) Linger() {
	i := e.iface
	if e.closed || e.lost() || !e.connected {
		e.Close()
		return
	}
	e.closed, e.userData = true, nil // which nobody is told any more
	i.endpoints--
	for range min(askLingering, i.lingering.Len()) {
		o := i.lingering.Next()
		i.lingering.Pass()
		o.Check(nil) // which ends it, if it fails
	}
	i.lingering.Add(&e.lingers, e)
	i.endLingering(maxLingering)
}

// endLingering ends those that were asked longest ago, so that there are no more than n.
func (i *iface) endLingering(n int) {
	for i.lingering.Len() > n {
		e := i.lingering.Next()
		e.stop(ucs.ErrCanceled)
		e.destroy(ucs.ErrCanceled)
	}
}
