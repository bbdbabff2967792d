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

// An endpoint keeps the segments of its peer mapped. A peer that closes its worker without a
// message, while its process lives, leaves these mappings behind. So whenever an endpoint is
// made some other endpoints are checked, round robin: peers that come and go leave some hundred
// dead endpoints at most, however many live ones there are. If there is no room all endpoints
// are checked, and the least needed ones are closed (uct.IfaceParams.Reclaim).

const (
	// looks is how many rings are checked when an endpoint is made, at the cost of one load
	// each. One more ring is checked for every looksShare endpoints. So at most looksShare
	// endpoints to peers that are gone stay, however many other endpoints there are.
	looks      = 4
	looksShare = 256

	// asks is how many rings of C UCX the kernel is asked about when an endpoint is made:
	// these rings do not say that they are closed.
	asks = 2

	// releasedAtOnce is how many descriptors of watched processes are closed when a
	// descriptor is needed.
	releasedAtOnce = 64
)

// lookAtSome finds endpoints whose peers are gone, among the next few of the round robin.
func (i *iface) lookAtSome() { i.lookAtPeers(looks+i.endpoints.Len()/looksShare, asks) }

// lookAtPeers checks the next n endpoints, and asks the kernel about at most ask of them.
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

// notice records an endpoint whose peer has closed its ring. The endpoint fails after the
// messages that the peer has sent were received.
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

// makeRoom frees what is missing after a segment could not be attached, and reports whether to
// try again. why is the error of the attempt.
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
