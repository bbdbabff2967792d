//go:build linux

package verbs

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// Init takes the queue pair from QPReset to QPInit, where receives may be posted. It uses
// Port, PKeyIndex and Access of a; for a UD queue pair QKey instead of Access.
func (q *QP) Init(a *QPAttr) error { return q.step(QPReset, QPInit, a) }

// Connect takes the queue pair from QPInit to QPRTR and QPRTS. It uses these fields of a:
//
//	RC  AH, DestQPN, PathMTU, RQPSN, SQPSN, MaxRdAtomic, MaxDestRdAtomic,
//	    MinRNRTimer, Timeout, RetryCount, RNRRetry
//	UC  AH, DestQPN, PathMTU, RQPSN, SQPSN
//	UD  SQPSN
//
// RQPSN is the SQPSN of the peer, and neither end may send before the other is in QPRTR.
// Other fields stay unchanged; use Modify for other transitions.
func (q *QP) Connect(a *QPAttr) error {
	if err := q.step(QPInit, QPRTR, a); err != nil {
		return err
	}
	return q.step(QPRTR, QPRTS, a)
}

// step modifies what a change of state cannot do without.
func (q *QP) step(from, to QPState, a *QPAttr) error {
	if s := q.State(); s != from {
		return fmt.Errorf("verbs: QP %#x: in %v, not in %v: %w", uint32(q.qpn), s, from, ucs.ErrInvalidParam)
	}
	next := *a
	next.State = to
	return q.Modify(&next, QPAttrState|transitions[q.typ][[2]QPState{from, to}].must)
}

// DefaultGID returns the GID of a port that most peers can reach: RoCE v2 before v1, an
// IPv4 address before an IPv6 one, and link-local addresses last. A port without a GID
// gives ucs.ErrNoElem. Entries above 255 are not considered, because queue pairs cannot use
// them.
func (c *Context) DefaultGID(port int) (GIDEntry, error) {
	all, err := c.QueryGIDTable()
	if err != nil {
		return GIDEntry{}, err
	}
	var best GIDEntry
	for _, e := range all {
		if e.Port == port && e.Index <= maxSGIDIndex && (best.Port == 0 || e.rank() > best.rank()) {
			best = e
		}
	}
	if best.Port == 0 {
		return GIDEntry{}, fmt.Errorf("verbs: %s: port %d has no GID: %w", c.Name(), port, ucs.ErrNoElem)
	}
	return best, nil
}

func (e GIDEntry) rank() int {
	r := 0
	if e.Type == GIDRoCEv2 {
		r += 4
	}
	switch a := e.GID.Addr(); {
	case a.Is4():
		r += 2
	case !a.IsLinkLocalUnicast():
		r++
	}
	return r
}

// maxSGIDIndex is what a field of 8 bits names.
const maxSGIDIndex = 1<<8 - 1

// To returns the path from the GID to that of a peer, for queue pairs and address handles.
// For an entry above 255 it is the zero AHAttr, which these refuse.
func (e GIDEntry) To(peer GID) AHAttr {
	if e.Index > maxSGIDIndex {
		return AHAttr{}
	}
	return AHAttr{Global: true, DGID: peer, SGIDIndex: uint8(e.Index), HopLimit: 64, Port: uint8(e.Port)}
}
