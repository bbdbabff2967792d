//go:build linux

package rc

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Credits returns the free entries of the send completion queue, and all of them.
func Credits(i uct.Iface) (free, total int) {
	x := i.(*iface)
	return x.credits, x.total
}

// Unsignaled returns how many of the last requests have asked for no completion.
func Unsignaled(e uct.Endpoint) int { return int(e.(*endpoint).unsignaled) }

// Room returns how many requests can be posted on an endpoint.
func Room(e uct.Endpoint) int { return e.(*endpoint).room }

// Limbo returns the number of ended endpoints that may still have completions in the queues.
func Limbo(i uct.Iface) int {
	l := &i.(*iface).retired
	return max(len(l.sends), len(l.ends))
}

// Buffers returns the number of buffers for copied data and of free ones, and the same for headers.
func Buffers(i uct.Iface) (bufs, freeBufs, hdrs, freeHdrs int) {
	x := i.(*iface)
	return x.bufs.Len(), x.bufs.Free(), x.hdrs.Len(), x.hdrs.Free()
}

// Posted returns how many receive buffers are posted on the device, and how many exist.
func Posted(i uct.Iface) (posted, all int) {
	x := i.(*iface)
	return x.recvs.Posted(), x.recvs.Len()
}

// Haunt takes queue pair numbers, as if ended endpoints of these numbers could still have
// completions.
func Haunt(i uct.Iface, numbers ...uint32) {
	x := i.(*iface)
	for _, n := range numbers {
		e := &endpoint{iface: x, qpn: verbs.QPN(n)}
		x.byQPN.add(e.qpn, e)
		x.retired.ends = append(x.retired.ends, e)
	}
	x.quiet = 1
}

// MostPutOff limits the deferred bytes of an interface.
func MostPutOff(i uct.Iface, n int) { i.(*iface).deferredLimit = n }

// PutOff returns the deferred bytes of an interface.
func PutOff(i uct.Iface) int { return i.(*iface).deferredBytes }

// Silent reports whether the peer is known to be gone and the owner was not notified.
func Silent(e uct.Endpoint) bool { return e.(*endpoint).silent != nil }

// Owing returns how many endpoints owe a grant.
func Owing(i uct.Iface) int { return i.(*iface).grants.Len() }

// MaxDraining bounds the draining endpoints; Draining returns their number.
const MaxDraining = maxDraining

func Draining(i uct.Iface) int { return i.(*iface).draining.Len() }

// ReadsAtOnce returns the most reads and atomics that a queue pair has in flight, and the most that
// it serves for the peer, as set on the device.
func ReadsAtOnce(t testing.TB, ep any) (asks, answers uint8) {
	t.Helper()
	a, err := ep.(*endpoint).qp.Query(verbs.QPAttrMaxRdAtomic | verbs.QPAttrMaxDestRdAtomic)
	if err != nil {
		t.Fatal(err)
	}
	return a.MaxRdAtomic, a.MaxDestRdAtomic
}

// Way returns the address vector of an endpoint's queue pair, as set on the device.
func Way(t testing.TB, ep any) verbs.AHAttr {
	t.Helper()
	a, err := ep.(*endpoint).qp.Query(verbs.QPAttrAH)
	if err != nil {
		t.Fatal(err)
	}
	return a.AH
}
