package proto

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// pick is a chosen pair of a resource and an entry of the peer's address.
type pick struct {
	local, remote int
	path          int // index among the parallel paths of the device; -1: any path
	score         float64
	tiebreak      float64
	priority      int
	candidate     int // index in LaneStep.Candidates
}

// scope holds the resources and entries that one search may choose from.
type scope struct {
	local  []bool // by local resource, whether it may be chosen
	remote []bool // by entry of the peer's address, whether it may be chosen
	used   paths  // the device pairs of lanes found before
}

// scope returns a scope with all enabled resources and all entries.
func (s *selector) scope() scope {
	n := len(s.enabled)
	all := make([]bool, n+len(s.remotes))
	copy(all, s.enabled)
	for i := range s.remotes {
		all[n+i] = true
	}
	return scope{local: all[:n:n], remote: all[n:]}
}

// excludeMD removes from the scope all local resources of the memory domain of p, and all entries of
// the peer's address that belong to p's memory domain at the peer.
func (sc *scope) excludeMD(s *selector, p pick) {
	md, dst := s.in.Local[p.local].MD, s.remotes[p.remote].dev.MD
	for i := range sc.local {
		sc.local[i] = sc.local[i] && s.in.Local[i].MD != md
	}
	for i := range sc.remote {
		sc.remote[i] = sc.remote[i] && s.remotes[i].dev.MD != dst
	}
}

func (sc *scope) leaveDevice(s *selector, device int) {
	for i := range sc.local {
		sc.local[i] = sc.local[i] && s.in.Local[i].Device != device
	}
}

func (sc *scope) leaveRemoteDevice(s *selector, device int) {
	for i := range sc.remote {
		sc.remote[i] = sc.remote[i] && s.remotes[i].device != device
	}
}

// choose finds the best pair of a resource and an entry that meets the criteria
// (ucp_wireup_select_transport), and records the search in the trace. ok is false if there is none.
func (s *selector) choose(c criteria, from scope) (best pick, ok bool) {
	step := LaneStep{Type: c.lane, Title: c.title, Chosen: -1}
	if best, ok = s.pick(&c, &from, &step); ok {
		step.Chosen = best.candidate
	} else {
		step.Outcome = "none"
	}
	s.trace.Steps = append(s.trace.Steps, step)
	return best, ok
}

// pick finds the best pair for the method choose, and records the candidates in step.
func (s *selector) pick(c *criteria, from *scope, step *LaneStep) (best pick, ok bool) {
	step.Candidates = make([]LaneCandidate, 0, len(s.in.Local))
	serves := s.serves
	clear(serves)
	for i, r := range s.remotes {
		if !from.remote[i] {
			continue
		}
		if why := c.rejectRemote(r.iface.Attr.Flags); why != "" {
			step.Candidates = append(step.Candidates, LaneCandidate{Local: -1, Remote: i, Peer: r.iface.Transport, Rejected: why})
			continue
		}
		serves[i] = true
	}

	found := s.found[:0]
	for i := range s.in.Local {
		l := &s.in.Local[i]
		if !from.local[i] {
			continue
		}
		if why := c.rejectLocal(l, s.in.Pairs(i)); why != "" {
			step.Candidates = append(step.Candidates, LaneCandidate{Local: i, Name: l.Name(), Remote: -1, Rejected: why})
			continue
		}
		for j, r := range s.remotes {
			if !serves[j] || r.iface.Transport != l.Transport || !s.mayJoin(c.lane, i, j) {
				continue
			}
			cand := LaneCandidate{Local: i, Name: l.Name(), Remote: j, Peer: r.iface.Transport}
			if err := s.reachable(i, j); err != nil {
				cand.Rejected = err.Error()
				step.Candidates = append(step.Candidates, cand)
				continue
			}
			cand.Score = c.score(l, r, from.used)
			cand.Priority = int(l.Attr.Perf.Priority) + int(r.iface.Attr.Priority)
			if c.tiebreak {
				cand.Tiebreak = s.scorer.bandwidth(l, r)
			}
			found = append(found, pick{
				local: i, remote: j, path: -1, score: cand.Score, tiebreak: cand.Tiebreak,
				priority: cand.Priority, candidate: len(step.Candidates),
			})
			step.Candidates = append(step.Candidates, cand)
		}
	}
	s.found = found
	if len(found) == 0 {
		return pick{}, false
	}
	best = found[0]
	for _, p := range found[1:] {
		if d := comparePriority(p.score, p.priority, best.score, best.priority); d > 0 || d == 0 && s.listedBefore(p, best) {
			best = p
		}
	}
	if !c.tiebreak {
		return best, true
	}
	// Of the candidates with about the best score, the one with the highest bandwidth wins.
	// All are compared with the best score, so that their order does not matter.
	reference, first := best.score, true
	for _, p := range found {
		if compareScores(p.score, reference) != 0 && math.Abs(p.score-reference) > c.tolerance*reference {
			continue
		}
		d := 1
		if !first {
			d = comparePriority(p.tiebreak, p.priority, best.tiebreak, best.priority)
		}
		if d > 0 || d == 0 && s.listedBefore(p, best) {
			best, first = p, false
		}
	}
	return best, true
}

// listedBefore breaks a tie between candidates: it reports whether p and q have different
// transports and the peer's address lists that of p first. C UCX then selects the transport of p
// too. Both sides must use the same transport, because an interface of C UCX that does not send
// receives only after a wakeup, and wakeups do not cross network namespaces.
func (s *selector) listedBefore(p, q pick) bool {
	return s.in.Local[p.local].Transport != s.in.Local[q.local].Transport && p.remote < q.remote
}

// mayJoin reports whether the pair of a resource and an entry is a lane already, or may become one
// of type t. When the limit on lanes is reached, only existing lanes may get another type, so that
// a selection from a wireup message finds the same lanes as one from a worker address.
func (s *selector) mayJoin(t LaneType, local, remote int) bool {
	limit := s.limits.Total
	if t.fastPath() {
		limit = s.limits.FastPath
	}
	if len(s.lanes) < limit {
		return true
	}
	for i := range s.lanes {
		if s.lanes[i].Local == local && s.lanes[i].Remote == remote {
			return true
		}
	}
	return false
}

// reachable returns the result of LaneInput.Reachable, which it calls once per pair.
func (s *selector) reachable(local, remote int) error {
	if s.in.Reachable == nil {
		return nil
	}
	if s.reach == nil {
		s.reach = make([]reached, len(s.in.Local)*len(s.remotes))
	}
	known := &s.reach[local*len(s.remotes)+remote]
	if !known.asked {
		r := s.remotes[remote]
		*known = reached{true, s.in.Reachable(local, r.dev, r.iface)}
	}
	return known.err
}

// reached is a stored result of LaneInput.Reachable.
type reached struct {
	asked bool
	err   error
}

// criteria holds the requirements for a lane of a type and the rating of candidates
// (ucp_wireup_criteria_t in src/ucp/wireup/wireup.h).
type criteria struct {
	lane  LaneType
	title string

	flags  uct.IfaceFlags // the local interface must have all of these
	any    uct.IfaceFlags // the local interface must have at least one of these
	peer   PeerFlags      // the peer's interface must have all of these
	anyOf  PeerFlags      // the peer's interface must have at least one of these
	events uct.EventFlags // the local interface must support all of these

	auxiliary  bool // auxiliary resources may be used
	keepalive  bool // the lane must be able to check that the peer is alive (canCheckPeer)
	rkeyPtr    bool
	invalidate bool
	memory     memoryNeed
	atomic32   bool
	atomic64   bool

	score     func(*LocalIface, remote, paths) float64
	tiebreak  bool    // bandwidth decides between equal scores
	tolerance float64 // with tiebreak, relative difference up to which scores count as equal
}

// memoryNeed is the kind of host memory that a lane for remote access must support.
type memoryNeed uint8

const (
	memoryAny    memoryNeed = iota
	memoryUser              // the application's memory
	memoryLocal             // memory that the domain allocated
	memoryRegPtr            // memory that the domain can both register and access
)

var flagText = map[uct.IfaceFlags]string{
	uct.IfaceAMShort: "am short", uct.IfaceAMBcopy: "am bcopy", uct.IfaceAMZcopy: "am zcopy", uct.IfacePending: "pending",
	uct.IfacePutShort: "put short", uct.IfacePutBcopy: "put bcopy", uct.IfacePutZcopy: "put zcopy",
	uct.IfaceGetShort: "get short", uct.IfaceGetBcopy: "get bcopy", uct.IfaceGetZcopy: "get zcopy",
	uct.IfaceErrHandlePeerFail: "peer failure handler", uct.IfaceEpCheck: "ep check", uct.IfaceEpKeepalive: "ep keepalive",
	uct.IfaceConnectToIface: "connect to iface", uct.IfaceConnectToEP: "connect to ep",
}

var peerText = map[PeerFlags]string{
	PeerConnectToIface: "connect to iface", PeerAMSync: "am sync callback", PeerCBAsync: "async callback",
	PeerPut: "put", PeerGet: "get", PeerEventRecv: "receive event", PeerAtomic32: "32-bit atomics", PeerAtomic64: "64-bit atomics",
}

// rejectRemote returns the reason why an entry of the peer's address with flags f is unsuitable, ""
// if it is suitable.
func (c *criteria) rejectRemote(f PeerFlags) string {
	if missing := c.peer &^ f; missing != 0 {
		return "peer has no " + peerText[missing&-missing]
	}
	if c.anyOf != 0 && f&c.anyOf == 0 {
		return "peer has neither put nor get"
	}
	if c.atomic32 && !f.Has(PeerAtomic32) {
		return "peer has no 32-bit atomics"
	}
	if c.atomic64 && !f.Has(PeerAtomic64) {
		return "peer has no 64-bit atomics"
	}
	return ""
}

// rejectLocal returns the reason why a local resource is unsuitable, "" if it is suitable. p2p
// means that its endpoints are connected pairwise. Then both sides close when one fails, so memory
// keys need no invalidation.
func (c *criteria) rejectLocal(l *LocalIface, p2p bool) string {
	if l.Auxiliary && !c.auxiliary {
		return "auxiliary transport, used only for wireup and keepalive"
	}
	if c.rkeyPtr && !l.Domain.Flags.Has(uct.MDFlagRkeyPtr) {
		return "cannot map the peer's memory (rkey_ptr)"
	}
	if c.invalidate && !p2p && !l.Domain.Flags.Has(uct.MDFlagInvalidateRMA) {
		return "memory domain cannot invalidate remote keys"
	}
	if why := c.memory.reject(&l.Domain); why != "" {
		return why
	}
	if missing := c.flags &^ l.Attr.Flags; missing != 0 {
		if missing.Has(uct.IfaceErrHandlePeerFail) {
			return "no peer failure handler: the transport does not report peer failures; ErrModePeer needs that, ErrModeNone does not"
		}
		return "no " + flagName(missing)
	}
	if c.any != 0 && l.Attr.Flags&c.any == 0 {
		return "no " + flagName(c.any)
	}
	if c.keepalive && !canCheckPeer(l.Attr.Flags) {
		return "no way to check the peer"
	}
	if missing := c.events &^ l.Attr.Events; missing != 0 {
		if missing&uct.EventSendComp != 0 {
			return "no send completion event"
		}
		return "no receive event"
	}
	if c.atomic32 && !allAtomics(l.Attr.Atomic32) {
		return "no 32-bit atomics"
	}
	if c.atomic64 && !allAtomics(l.Attr.Atomic64) {
		return "no 64-bit atomics"
	}
	return ""
}

// flagName returns the name of the lowest flag in f.
func flagName(f uct.IfaceFlags) string {
	if s, ok := flagText[f&-f]; ok {
		return s
	}
	return fmt.Sprintf("capability %d", bits.TrailingZeros64(uint64(f)))
}

// canCheckPeer reports whether the peer of a lane can be checked (ucp_wireup_check_keepalive): by
// keepalive or checks of the transport itself on pairwise connections, or by active messages to
// an interface.
func canCheckPeer(f uct.IfaceFlags) bool {
	own := f&uct.IfaceConnectToEP != 0 && f&(uct.IfaceEpKeepalive|uct.IfaceEpCheck) != 0
	messages := f&uct.IfaceConnectToIface != 0 && f&uct.IfaceAMBcopy != 0
	return own || messages
}

func (n memoryNeed) reject(md *uct.MDAttr) string {
	keyed := md.Flags&(uct.MDFlagNeedMemh|uct.MDFlagNeedRkey) != 0
	register := md.Flags.Has(uct.MDFlagRegister)
	access := slices.Contains(md.AccessTypes, ucs.MemoryHost)
	switch {
	case n == memoryUser && keyed && !register:
		return "cannot register memory"
	case n == memoryUser && !keyed && !access:
		return "cannot access memory"
	case n == memoryLocal && !md.Flags.Has(uct.MDFlagAlloc|uct.MDFlagNeedRkey):
		return "cannot allocate memory for remote access"
	case n == memoryRegPtr && !access:
		return "cannot access memory"
	case n == memoryRegPtr && !register:
		return "cannot register memory"
	}
	return ""
}
