//go:build linux

package verbs

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// Init moves the queue pair from QPReset to QPInit, where receives may be posted. It uses the
// fields Port, PKeyIndex and Access of a; for a UD queue pair QKey instead of Access.
func (q *QP) Init(a *QPAttr) error { return q.step(QPReset, QPInit, a) }

// Connect moves the queue pair from QPInit to QPRTR and QPRTS. It uses these fields of a:
//
//	RC  AH, DestQPN, PathMTU, RQPSN, SQPSN, MaxRdAtomic, MaxDestRdAtomic,
//	    MinRNRTimer, Timeout, RetryCount, RNRRetry
//	UC  AH, DestQPN, PathMTU, RQPSN, SQPSN
//	UD  SQPSN
//
// RQPSN is the SQPSN of the peer's queue pair, and neither queue pair may send before the other is
// in QPRTR. Other attributes stay unchanged; use Modify for other transitions.
func (q *QP) Connect(a *QPAttr) error {
	if err := q.step(QPInit, QPRTR, a); err != nil {
		return err
	}
	return q.step(QPRTR, QPRTS, a)
}

// step changes the state, and sets the attributes that the transition requires, whose values are in
// a. It fails if the queue pair is not in the state from.
func (q *QP) step(from, to QPState, a *QPAttr) error {
	if s := q.State(); s != from {
		return fmt.Errorf("verbs: QP %#x: in %v, not in %v: %w", uint32(q.qpn), s, from, ucs.ErrInvalidParam)
	}
	next := *a
	next.State = to
	return q.Modify(&next, QPAttrState|transitions[q.typ][[2]QPState{from, to}].must)
}

// DefaultGID returns the GID of a port that most peers can reach. It prefers, in this order, RoCE
// v2 to v1, IPv4 to IPv6 addresses, and other IPv6 addresses to link-local ones. It returns
// ucs.ErrNoElem if the port has no GID. Table entries above 255 are not considered, because queue
// pairs cannot use them.
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

// maxSGIDIndex is the largest index that the 8 bits of AHAttr.SGIDIndex hold.
const maxSGIDIndex = 1<<8 - 1

// To returns the path from this GID to the GID of a peer, for queue pairs and address handles. If
// Index is above 255, it returns the zero AHAttr, which queue pairs and address handles refuse.
func (e GIDEntry) To(peer GID) AHAttr {
	if e.Index > maxSGIDIndex {
		return AHAttr{}
	}
	return AHAttr{Global: true, DGID: peer, SGIDIndex: uint8(e.Index), HopLimit: 64, Port: uint8(e.Port)}
}
