//go:build linux

package shm

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
)

// An endpoint keeps the segments of its peer mapped. A peer that closes its worker without a
// message, while its process stays alive, leaves these mappings behind. So whenever an endpoint is
// made some other endpoints are checked, round robin: at most some hundred endpoints of closed
// peers remain, however many others there are. If there is no room for a mapping, all endpoints are
// checked, and the least needed ones are closed (uct.IfaceParams.Reclaim).

const (
	// looks is the number of rings that are checked when an endpoint is made, at the cost of
	// one load each. One more ring is checked for every looksShare endpoints. So at most
	// looksShare endpoints of closed peers remain, however many other endpoints there are.
	looks      = 4
	looksShare = 256

	// asks is the number of rings of C UCX for which the kernel is queried when an endpoint is
	// made, because these rings are not marked as closed.
	asks = 2

	// releasedAtOnce is the number of descriptors of watched processes that are closed when a
	// descriptor is needed.
	releasedAtOnce = 64
)

// lookAtSome checks the next few endpoints of the round robin for peers that have closed their
// rings.
func (i *iface) lookAtSome() { i.lookAtPeers(looks+i.endpoints.Len()/looksShare, asks) }

// lookAtPeers checks the next n endpoints for peers that have closed their rings, and queries the
// kernel for at most ask of them.
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

// notice records an endpoint whose peer has closed its ring. The endpoint fails after all messages
// of the peer were received.
func (i *iface) notice(e *endpoint) {
	if len(i.ended) == 0 {
		i.endedAt = i.worker.Now()
	}
	e.ended, i.ended = true, append(i.ended, e)
	i.MarkExit()
}

// ringClosed reports whether the peer's ring is marked as closed, which only this library does.
func (e *endpoint) ringClosed() (closed bool) {
	if e.fenced {
		defer fault.End(fault.Begin(), e, nil, nil)
	}
	return atomic.LoadUint32(e.addrLen) == 0
}

// Gone implements uct.ProcessEndpoint.
func (e *endpoint) Gone() error {
	switch {
	case e.failure != nil:
		return e.failure
	case e.ended:
		return errClosed()
	}
	return nil
}

// Idle implements uct.ProcessEndpoint.
func (e *endpoint) Idle() bool { return e.pending.Empty() }

// makeRoom frees descriptors or mappings after a segment could not be attached, and reports whether
// to try again. why is the error of the failed attempt.
func (i *iface) makeRoom(why error) bool {
	switch {
	case errors.Is(why, unix.EMFILE), errors.Is(why, unix.ENFILE):
		return i.watcher.Release(releasedAtOnce) > 0
	case !errors.Is(why, ucs.ErrExceedsLimit) && !errors.Is(why, unix.ENOMEM):
		return false
	}
	i.dropCachedRing()
	n := i.endpoints.Len()
	i.lookAtPeers(n, n)
	return i.params.Reclaim != nil && i.params.Reclaim()
}
