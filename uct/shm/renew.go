//go:build linux

package shm

import (
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/uct"
)

const (
	// watchEvery is the number of rounds without a message after which the ring
	// is checked for elements that stay unpublished.
	watchEvery = 1024

	// stuckAfter is how long an element may stay claimed and unpublished. Between
	// claiming and publishing a sender copies a few KiB. A sender that is stopped in
	// between for longer than stuckAfter loses its endpoint.
	stuckAfter = 10 * time.Second

	// maxRenewals bounds how often a hostile peer can make an interface renew its ring.
	maxRenewals = 16
)

// stall records the next element of the ring while it is claimed and not published, to detect a
// sender that has died.
type stall struct {
	watching bool
	read     uint64        // number of the element
	since    time.Duration // time since which the element is watched
}

// watch checks the ring for an element that a sender has claimed and never published, for an
// impossible head, and for a tail that a peer has written.
//
//go:noinline
func (i *iface) watch() {
	i.dropCachedRing()
	i.watchTail()
	n := i.rx.claimed()
	switch {
	case n == 0:
		i.stall.watching = false
	case n > uint64(i.rx.n):
		i.corrupt(fmt.Sprintf("%d elements are claimed, more than it has", n))
	case !i.stall.watching || i.stall.read != i.rx.read:
		i.stall = stall{watching: true, read: i.rx.read, since: i.worker.Now()}
	case i.worker.Now()-i.stall.since > i.stuckAfter:
		i.stall.watching = false
		i.retire("a peer has claimed an element of the ring and not filled it; the peer has probably died", true)
	}
}

// watchTail restores the tail if a peer has written it. Restoring the tail can give room back to
// senders, so the senders that have left notes are woken.
func (i *iface) watchTail() {
	if !i.rx.restoreTail() {
		return
	}
	i.takeNotes()
	if !i.scribbled {
		i.scribbled = true
		i.worker.Log().WarnOnce(i.domain.attr.Component, "a process has written to the receiver's part of a shared-memory ring",
			zap.String("transport", i.domain.attr.Component), zap.Stringer("ring", &i.rx))
	}
}

// published reports whether the next element holds a message.
func (i *iface) published() bool {
	r := &i.rx
	return atomic.LoadUint32(word32(r.elems, r.pos))&flagPhase == r.phase
}

// corrupt retires a ring that holds invalid data, which no correct sender leaves.
//
//go:noinline
func (i *iface) corrupt(what string) {
	i.retire("a peer has left invalid data in the ring: "+what, false)
}

// corruptElement does so for an element that begins with w.
//
//go:noinline
func (i *iface) corruptElement(w uint32) {
	i.corrupt(fmt.Sprintf("element with id %d of %d bytes, flags %#x", uint8(w>>8), w>>16, uint8(w)))
}

// Fault implements fault.Owner: it replaces the ring after a fault in the memory of the ring or of
// its descriptors, which another process has truncated.
func (i *iface) Fault(addr uint64, _ []byte) error {
	ours := fault.Within(addr, i.rx.seg.mem)
	for _, c := range i.pool.chunks {
		ours = ours || fault.Within(addr, c.mem)
	}
	if !ours {
		return nil
	}
	i.inRound = false
	// The memory of any descriptor may be gone.
	i.pool.spare = nil
	i.renew("another process has truncated the shared memory")
	return errTruncated(addr)
}

// retire closes the ring for good and opens a new one. Endpoints of this library that use the old
// ring fail; to other senders the old ring looks full from now on. If drain is set, published
// messages behind the unpublished element are delivered. They are from other senders, because a
// sender publishes an element before it claims the next one.
func (i *iface) retire(why string, drain bool) {
	n := i.rx.markClosed()
	i.takeNotes()
	if drain {
		i.inRound = true
		for range min(n, uint64(i.rx.n)) {
			if i.published() && !i.deliverLast() {
				break
			}
			i.rx.skip()
		}
		i.inRound = false
	}
	i.renew(why)
}

// deliverLast delivers the next message of a retired ring. Handlers may not keep its descriptor,
// because descriptors of a retired ring are not replaced.
func (i *iface) deliverLast() bool {
	w := atomic.LoadUint32(word32(i.rx.elems, i.rx.pos))
	if w&flagInline != 0 || w>>8&0xff >= uct.MaxAMIDs {
		return i.deliver(w)
	}
	return i.deliverBuffered(uct.AMID(w>>8&0xff), int(w>>16), false)
}

// skip moves on to the next element without giving room back.
func (r *ring) skip() {
	r.release = 1<<63 - 1
	r.next()
}

// renew replaces the ring. The descriptors of the old ring are not used again: a peer that was only
// late may still write to them. If no new ring can be made, the interface cannot receive any more
// (dead).
func (i *iface) renew(why string) {
	fields := []zap.Field{
		zap.String("transport", i.domain.attr.Component), zap.String("why", why), zap.Stringer("ring", &i.rx),
	}
	old := i.rx.seg
	err := fmt.Errorf("the ring was replaced %d times, which is the limit", i.renewals)
	if i.renewals < maxRenewals {
		i.renewals++
		err = i.replaceRing()
	}
	if err != nil {
		i.dead, i.unusual = true, true
		i.worker.Log().Error("shared-memory ring closed; the interface cannot receive any more", append(fields, zap.Error(err))...)
	} else {
		i.worker.Log().Error("shared-memory ring closed and replaced; endpoints that use the old ring fail", fields...)
	}
	i.domain.m.destroy(old)
	if err != nil {
		i.rx = ring{}
	}
}

func (i *iface) replaceRing() error {
	slots, err := i.slots()
	if err != nil {
		return err
	}
	seg, err := i.domain.m.replace(i.rx.seg, i.ringOptions(), func(s *segment) error {
		return i.fillRing(s, slots)
	})
	if err != nil {
		i.pool.spare = append(i.pool.spare, slots...)
		return err
	}
	i.useRing(seg, slots)
	return nil
}

// closeRing closes the ring of an interface that is being closed, and frees its segment.
func (i *iface) closeRing() error {
	func() {
		if i.fenced {
			defer fault.End(fault.Begin(), i.rx.seg, nil, nil)
		}
		i.rx.close()
		i.takeNotes()
	}()
	return i.domain.m.destroy(i.rx.seg)
}
