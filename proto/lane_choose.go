package proto

import "math"

// pick is a chosen pair of a resource and an entry of the peer's address.
type pick struct {
	local, remote int
	path          int // -1: any
	score         float64
	tiebreak      float64
	priority      int
	candidate     int // in the trace
}

// scope is what one search may choose from.
type scope struct {
	local  []bool // our resources
	remote []bool // entries of the address
	used   paths
}

// scope is everything enabled.
func (s *selector) scope() scope {
	n := len(s.enabled)
	all := make([]bool, n+len(s.remotes))
	copy(all, s.enabled)
	for i := range s.remotes {
		all[n+i] = true
	}
	return scope{local: all[:n:n], remote: all[n:]}
}

// leaveMD removes both sides' memory domains of a pick.
func (sc *scope) leaveMD(s *selector, p pick) {
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

// choose finds the best pair for a use (ucp_wireup_select_transport) and records
// the search.
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

// pick is choose, which notes the candidates.
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
	// Among those about as good, the widest; compared with the best score, so
	// that the order of candidates does not matter.
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

// listedBefore decides between equal candidates: of two transports, the one that
// the peer lists first. It is the one that C takes, and an interface that C does
// not send on receives only when a wakeup tells it to, which does not cross
// network namespaces.
func (s *selector) listedBefore(p, q pick) bool {
	return s.in.Local[p.local].Transport != s.in.Local[q.local].Transport && p.remote < q.remote
}

// mayJoin: at the limit only lanes that exist may get another type, so that a
// selection from a wireup message finds the same lanes as one from an address.
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

// reachable asks once per pair.
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

// reached is what became of asking.
type reached struct {
	asked bool
	err   error
}
