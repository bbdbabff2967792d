//go:build linux

package rc

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Credits are the places in the queue of completions of sends that are free, and how many
// there are.
func Credits(i uct.Iface) (free, total int) {
	x := i.(*iface)
	return x.credits, x.total
}

// Unsignaled is how many of the last requests have asked for no completion.
func Unsignaled(e uct.Endpoint) int { return int(e.(*endpoint).unsignaled) }

// Room is how many requests may be posted on an endpoint.
func Room(e uct.Endpoint) int { return e.(*endpoint).room }

// Limbo is how many endpoints are not quite over.
func Limbo(i uct.Iface) int {
	l := &i.(*iface).retired
	return max(len(l.sends), len(l.ends))
}

// Buffers are those that hold copied data, and how many of them are free; likewise headers.
func Buffers(i uct.Iface) (bufs, freeBufs, hdrs, freeHdrs int) {
	x := i.(*iface)
	return x.bufs.Len(), x.bufs.Free(), x.hdrs.Len(), x.hdrs.Free()
}

// Posted are the buffers that the device has to receive into, and how many there are.
func Posted(i uct.Iface) (posted, all int) {
	x := i.(*iface)
	return x.recvs.Posted(), x.recvs.Len()
}

// Haunt has numbers of queue pairs taken, as if completions of some that have ended could
// still come.
func Haunt(i uct.Iface, numbers ...uint32) {
	x := i.(*iface)
	for _, n := range numbers {
		e := &endpoint{iface: x, qpn: verbs.QPN(n)}
		x.byQPN.add(e.qpn, e)
		x.retired.ends = append(x.retired.ends, e)
	}
	x.quiet = 1
}

// MostPutOff has so many bytes put off on an interface at most.
func MostPutOff(i uct.Iface, n int) { i.(*iface).mostPutOff = n }

// PutOff is how many are.
func PutOff(i uct.Iface) int { return i.(*iface).putOff }

// Silent reports whether the peer is gone and nobody has been told.
func Silent(e uct.Endpoint) bool { return e.(*endpoint).silent != nil }

// Owing is how many endpoints owe a grant.
func Owing(i uct.Iface) int { return i.(*iface).grants.Len() }

// MaxLingering is how many endpoints linger, and Lingering how many do.
const MaxLingering = maxLingering

func Lingering(i uct.Iface) int { return i.(*iface).lingering.Len() }

// ReadsAtOnce is how many reads and atomics a queue pair has under way at once, at most, and
// how many of the peer's it answers, as the device has it.
func ReadsAtOnce(t testing.TB, ep any) (asks, answers uint8) {
	t.Helper()
	a, err := ep.(*endpoint).qp.Query(verbs.QPAttrMaxRdAtomic | verbs.QPAttrMaxDestRdAtomic)
	if err != nil {
		t.Fatal(err)
	}
	return a.MaxRdAtomic, a.MaxDestRdAtomic
}

// Way is that of an endpoint's queue pair, as the device has it.
func Way(t testing.TB, ep any) verbs.AHAttr {
	t.Helper()
	a, err := ep.(*endpoint).qp.Query(verbs.QPAttrAH)
	if err != nil {
		t.Fatal(err)
	}
	return a.AH
}
