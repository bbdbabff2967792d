//go:build linux

package shm

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// An endpoint has the segments of its peer mapped. Peers that close their workers without
// a word, while their processes live, leave them behind. So whenever an endpoint is made
// some others are looked at, in turn: who comes and goes leaves some hundred of them at
// most, however many there are beside. Where there is no room all are looked at, and what
// is needed least gives way (uct.IfaceParams.Reclaim).

const (
	// looks is how many rings are looked at for a new endpoint, for which that is one
	// load each, and of how many endpoints another one. At most looksShare peers that are
	// gone stay, however many endpoints there are beside.
	looks      = 4
	looksShare = 256

	// asks is how many rings of C UCX, which do not say that they are closed, the kernel
	// is asked about.
	asks = 2

	// releasedAtOnce is how many descriptors give way to what needs one.
	releasedAtOnce = 64
)

// lookAtSome finds endpoints whose peers are gone, among those whose turn it is.
func (i *iface) lookAtSome() { i.lookAtPeers(looks+i.endpoints.Len()/looksShare, asks) }

// lookAtPeers looks at the next n endpoints, and asks the kernel at most so many times.
func (i *iface) lookAtPeers(n, ask int) {
	for range min(n, i.endpoints.Len()) {
		e := i.endpoints.Next()
		i.endpoints.Pass()
		if e.refusing || e.ended {
			continue
		}
		gone := e.ringClosed()
		if !gone && !e.ours && ask > 0 {
			ask--
			gone = e.unowned()
		}
		if gone {
			i.notice(e)
		}
	}
}

// notice remembers an endpoint whose ring is closed until what its peer has sent was
// received.
func (i *iface) notice(e *endpoint) {
	if len(i.ended) == 0 {
		i.endedAt = i.worker.Now()
	}
	e.ended, i.ended = true, append(i.ended, e)
	i.MarkExit()
}

// ringClosed reports whether a ring of this library says that it is.
func (e *endpoint) ringClosed() (closed bool) {
	if e.fenced {
		defer fault.End(fault.Begin(), e, nil, nil)
	}
	return atomic.LoadUint32(e.addrLen) == 0
}

var _ uct.Reclaimable = (*endpoint)(nil)

// Gone implements uct.Reclaimable.
func (e *endpoint) Gone() error {
	switch {
	case e.failure != nil:
		return e.failure
	case e.ended:
		return errClosed()
	}
	return nil
}

// Idle implements uct.Reclaimable.
func (e *endpoint) Idle() bool { return e.pending.Empty() }

// makeRoom is told why a segment could not be attached, and reports whether to try again.
func (i *iface) makeRoom(why error) bool {
	switch {
	case errors.Is(why, unix.EMFILE), errors.Is(why, unix.ENFILE):
		return i.watcher.Release(releasedAtOnce) > 0
	case !errors.Is(why, ucs.ErrExceedsLimit) && !errors.Is(why, unix.ENOMEM):
		return false
	}
	i.forgetLook()
	n := i.endpoints.Len()
	i.lookAtPeers(n, n)
	return i.params.Reclaim != nil && i.params.Reclaim()
}
