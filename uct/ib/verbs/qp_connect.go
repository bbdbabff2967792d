//go:build linux

package verbs

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// Init takes the queue pair from QPReset to QPInit, where receives may be posted.
// It uses Port, PKeyIndex and Access of a, of a UD queue pair QKey instead of
// Access.
func (q *QP) Init(a *QPAttr) error { return q.step(QPReset, QPInit, a) }

// Connect takes the queue pair from QPInit to QPRTR and QPRTS. It uses of a:
//
//	RC  AH, DestQPN, PathMTU, RQPSN, SQPSN, MaxRdAtomic, MaxDestRdAtomic,
//	    MinRNRTimer, Timeout, RetryCount, RNRRetry
//	UC  AH, DestQPN, PathMTU, RQPSN, SQPSN
//	UD  SQPSN
//
// RQPSN is the SQPSN of the peer, and neither end sends before the other is in
// QPRTR. What it does not use stays as it is: other ways to change a queue pair
// are Modify's.
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

// DefaultGID is the GID of a port by which most peers reach it: of RoCE v2 before
// v1, and of an IPv4 address before one of IPv6, with addresses of the link last.
// A port without any is ucs.ErrNoElem. An entry above 255 is not considered, since
// no queue pair can be told to use it.
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

// To is the way from the GID to that of a peer, for queue pairs and address
// handles. Of an entry above 255 it is the zero AHAttr, which they refuse.
func (e GIDEntry) To(peer GID) AHAttr {
	if e.Index > maxSGIDIndex {
		return AHAttr{}
	}
	return AHAttr{Global: true, DGID: peer, SGIDIndex: uint8(e.Index), HopLimit: 64, Port: uint8(e.Port)}
}
