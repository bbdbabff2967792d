//go:build linux

package rc

import "github.com/ucx-go/ucx/ucs"

// Both directions of a connection are one queue pair. Who closes in error mode none tells
// nobody, and the peer goes on: it sends, or flushes to learn that what it sent last has
// arrived, as C UCX does when it closes, which asks for few completions before. Without
// our queue pair nothing answers that, and with the retries that C asks of soft-RoCE it
// waits for ever. C keeps such endpoints until their worker ends (ucp_ep_disconnected); here
// they are kept in the transport, which receives on them what comes, the last ones of them.

// maxLingering is how many endpoints are kept. The oldest makes room.
const maxLingering = 256

// Linger implements uct.Lingerer.
func (e *endpoint) Linger() {
	i := e.iface
	if e.closed || e.lost() || !e.connected {
		e.Close()
		return
	}
	e.closed = true
	i.endpoints--
	i.lingering.Add(&e.lingers, e)
	i.endLingering(maxLingering)
}

// endLingering ends the oldest that linger, so that there are no more than n.
func (i *iface) endLingering(n int) {
	for i.lingering.Len() > n {
		e := i.lingering.Next()
		e.stop(ucs.ErrCanceled)
		e.destroy(ucs.ErrCanceled)
	}
}
