package proto

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// minBcopy is the least MaxBcopy, in bytes, that a lane for active messages may have
// (UCP_MIN_BCOPY).
const minBcopy = 64

// SelectLanes chooses the lanes of an endpoint: which local resources are connected to
// which entries of the peer's address, and for which purposes. It follows
// src/ucp/wireup/select.c, because both sides must choose the same lanes if endpoints are
// connected pairwise. The trace explains the choice, even if there is an error; the error wraps
// ucs.ErrUnreachable.
func SelectLanes(in *LaneInput) (LaneConfig, LaneTrace, error) {
	// The first search uses only resources that scale to the number of endpoints, the second
	// one all resources.
	s := newSelector(in, true)
	if s.scalable {
		if err := s.search(); err == nil {
			return s.config(), s.trace, nil
		}
	}
	s = newSelector(in, false)
	if err := s.search(); err != nil {
		return LaneConfig{}, s.trace, err
	}
	return s.config(), s.trace, nil
}

// selector is one run of the selection.
type selector struct {
	in      *LaneInput
	limits  LaneLimits
	scorer  scorer
	remotes []remote
	reach   []reached // results of LaneInput.Reachable, by resource and entry
	serves  []bool    // whether each entry is suitable in the current search
	found   []pick    // reachable pairs of the current search

	enabled  []bool // by local resource, whether it may be chosen
	scalable bool   // at least one resource is enabled

	lanes   []Lane
	pathSet []bool // by lane, whether its Path is decided
	needAM  bool   // remote access or atomic operations are emulated over active messages
	trace   LaneTrace
}

func newSelector(in *LaneInput, onlyScalable bool) *selector {
	s := &selector{
		in: in, limits: in.Limits.orDefault(), scorer: newScorer(in),
		remotes: remoteList(in.Remote),
	}
	marks := make([]bool, len(in.Local)+len(s.remotes))
	s.enabled, s.serves = marks[:len(in.Local)], marks[len(in.Local):]
	for i := range in.Local {
		m := in.Local[i].Attr.MaxEndpoints
		s.enabled[i] = !onlyScalable || m == 0 || m >= max(in.NumEndpoints, 1)
		s.scalable = s.scalable || s.enabled[i]
	}
	return s
}

// search selects all lanes, in the order that determines their numbers.
func (s *selector) search() error {
	if s.in.CM {
		s.add(LaneCM, pick{local: -1, remote: -1, path: -1})
	}
	steps := []func() error{s.addRMA, s.addAMO, s.addAM, s.addRkeyPtr, s.addRMABW, s.addAMBW, s.addKeepalive}
	if s.in.MessagesOnly {
		steps = []func() error{s.addAM}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if len(s.lanes) == 0 {
		return fmt.Errorf("proto: no feature needs a lane: %w", ucs.ErrUnreachable)
	}
	return nil
}

// errFlags returns the flags that the error mode requires of every lane.
func (s *selector) errFlags() uct.IfaceFlags {
	if s.in.ErrMode == ErrModeNone {
		return 0
	}
	return uct.IfaceErrHandlePeerFail
}

// wakeupEvents returns the events that lanes for messages must support so that the worker can
// sleep.
func (s *selector) wakeupEvents() uct.EventFlags {
	if s.in.Features.has(FeatureTag | FeatureWakeup) {
		return uct.EventSendComp | uct.EventRecv
	}
	return 0
}

func (s *selector) addRMA() error {
	if s.in.Features&FeatureRMA == 0 {
		return nil
	}
	s.addMemory(criteria{
		lane: LaneRMA, title: "remote %s memory access",
		flags: uct.IfacePutShort | uct.IfacePutBcopy | uct.IfaceGetBcopy | uct.IfacePending | s.errFlags(),
		peer:  PeerPut | PeerGet,
		score: s.scorer.rma,
	}, func(*LocalIface) bool { return true })
	return nil
}

func (s *selector) addAMO() error {
	if s.in.Features&(FeatureAtomic32|FeatureAtomic64) == 0 {
		return nil
	}
	// A resource with pairwise connections works only if the peer chooses it too.
	s.addMemory(criteria{
		lane: LaneAMO, title: "atomic operations on %s memory",
		flags:    uct.IfacePending | s.errFlags(),
		atomic32: s.in.Features&FeatureAtomic32 != 0,
		atomic64: s.in.Features&FeatureAtomic64 != 0,
		score:    s.scorer.amo,
	}, func(l *LocalIface) bool { return l.Attr.Flags&uct.IfaceConnectToIface != 0 })
	return nil
}

// addMemory adds the best lane for access to registered memory, and then each better lane that can
// access only memory allocated by its domain (ucp_wireup_add_memaccess_lanes). Without a lane for
// registered memory, the operations are emulated over active messages.
func (s *selector) addMemory(c criteria, usable func(*LocalIface) bool) {
	title := c.title
	from := s.scope()
	for i := range from.local {
		from.local[i] = from.local[i] && usable(&s.in.Local[i])
	}
	c.title, c.memory = fmt.Sprintf(title, "registered"), memoryUser
	best := 0.0
	if p, ok := s.choose(c, from); ok && s.add(c.lane, p) {
		best = p.score
		from.excludeMD(s, p)
	} else {
		s.needAM = true
	}
	c.title, c.memory = fmt.Sprintf(title, "allocated"), memoryLocal
	for {
		p, ok := s.choose(c, from)
		if !ok || compareScores(p.score, best) <= 0 || !s.add(c.lane, p) {
			return
		}
		from.excludeMD(s, p)
	}
}

// amRequired reports whether the endpoint needs a lane for active messages
// (ucp_wireup_is_am_required).
func (s *selector) amRequired() bool {
	if s.needAM || s.in.Messages || s.in.MessagesOnly || s.in.ErrMode != ErrModeNone || s.in.Features&(FeatureTag|FeatureStream|FeatureAM) != 0 {
		return true
	}
	for i := range s.lanes {
		if l := s.lanes[i].Local; l >= 0 && s.in.Local[l].Attr.Flags&uct.IfaceConnectToIface == 0 {
			return true
		}
	}
	return false
}

func (s *selector) addAM() error {
	if !s.amRequired() {
		return nil
	}
	from := s.scope()
	for i := range from.local {
		if n := s.in.Local[i].Attr.AM.MaxBcopy; n < minBcopy && s.in.Local[i].Attr.Flags&uct.IfaceAMBcopy != 0 {
			from.local[i] = false
		}
	}
	c := criteria{
		lane: LaneAM, title: "active messages",
		flags: uct.IfaceAMBcopy | s.errFlags(), peer: PeerAMSync, events: s.wakeupEvents(),
		score: s.scorer.am, tiebreak: true,
	}
	p, ok := s.choose(c, from)
	if !ok {
		return s.unreachable()
	}
	if !s.add(LaneAM, p) {
		return fmt.Errorf("proto: more than %d lanes: %w", s.limits.FastPath, ucs.ErrExceedsLimit)
	}
	return nil
}

// unreachable returns the error of the last search, which has failed.
func (s *selector) unreachable() error {
	step := &s.trace.Steps[len(s.trace.Steps)-1]
	var why []string
	for i := range step.Candidates {
		why = append(why, step.Candidates[i].text(false))
	}
	if len(why) == 0 {
		why = []string{"the peer's address and this worker have no common transport"}
	}
	return fmt.Errorf("proto: no transport for %s: %s: %w", step.Title, strings.Join(why, "; "), ucs.ErrUnreachable)
}

func (s *selector) addRkeyPtr() error {
	if !s.longAccess() || s.in.RndvScheme != RndvSchemeAuto {
		return nil
	}
	s.addWide(criteria{
		lane: LaneRkeyPtr, title: "obtain remote memory pointer",
		flags: uct.IfacePending | s.errFlags(), events: s.wakeupEvents(),
		rkeyPtr: true, memory: memoryRegPtr, score: s.scorer.rmaBW,
	}, 1)
	return nil
}

// longAccess reports whether the endpoint needs lanes for long remote access
// (ucp_wireup_is_rma_bw_needed). Toward peers that announce no release, the rendezvous limit
// determines the number of these lanes (ucp_wireup_add_rma_bw_lanes).
func (s *selector) longAccess() bool {
	var need Features
	if s.limits.RMA > 0 {
		need = s.in.Features & FeatureRMA
	}
	if s.in.RndvScheme != RndvSchemeAM && s.in.RndvScheme != RndvSchemePtr {
		need |= s.in.Features & (FeatureTag | FeatureAM)
	}
	return need != 0 && s.limits.Rndv > 0
}

// addRMABW adds lanes for rendezvous. A lane must support zero-copy reads or zero-copy writes, or
// the one of them that the rendezvous scheme prescribes
// (ucp_wireup_init_rma_bw_criteria_iface_flags).
func (s *selector) addRMABW() error {
	if !s.longAccess() {
		return nil
	}
	c := criteria{
		lane: LaneRMABW, title: "high-bw remote memory access",
		flags: uct.IfacePending | s.errFlags(), events: s.wakeupEvents(),
		any: uct.IfaceGetZcopy | uct.IfacePutZcopy, anyOf: PeerGet | PeerPut,
		memory: memoryUser, score: s.scorer.rmaBW,
		// After a rendezvous has failed, the peer must not be able to write any more.
		invalidate: s.in.ErrMode != ErrModeNone && s.in.Features&(FeatureTag|FeatureAM) != 0,
	}
	switch s.in.RndvScheme {
	case RndvSchemeGet:
		c.any, c.anyOf = 0, 0
		c.flags |= uct.IfaceGetZcopy
		c.peer = PeerGet
	case RndvSchemePut:
		c.any, c.anyOf = 0, 0
		c.flags |= uct.IfacePutZcopy
		c.peer = PeerPut
	}
	s.addWide(c, s.limits.Rndv)
	return nil
}

func (s *selector) addAMBW() error {
	if s.in.Features&(FeatureTag|FeatureAM) == 0 || s.limits.Eager < 2 {
		return nil
	}
	n := max(s.limits.Eager, s.limits.Rndv)
	if s.limits.Slow {
		n = s.limits.Eager // releases before 1.16 count the AM lane as the first of these
	}
	s.addWide(criteria{
		lane: LaneAMBW, title: "high-bw active messages",
		flags: uct.IfaceAMBcopy | s.errFlags(), peer: PeerAMSync, events: s.wakeupEvents(),
		score: s.scorer.amBW,
	}, n)
	return nil
}

func (s *selector) addKeepalive() error {
	if s.in.ErrMode == ErrModeNone || !s.in.Keepalive {
		return nil
	}
	p, ok := s.choose(criteria{
		lane: LaneKeepalive, title: "keepalive",
		flags: s.errFlags(), keepalive: true, auxiliary: true,
		score: s.scorer.keepalive, tiebreak: true, tolerance: 0.02,
	}, s.scope())
	if !ok {
		return s.unreachable()
	}
	if !s.add(LaneKeepalive, p) {
		return fmt.Errorf("proto: more than %d lanes: %w", s.limits.Total, ucs.ErrExceedsLimit)
	}
	return nil
}

// addWide adds up to n lanes over different devices or paths, except lanes that are much slower
// than the fastest (ucp_wireup_add_bw_lanes_pairwise and ucp_wireup_add_fast_lanes_pairwise). It
// reports whether it added any.
func (s *selector) addWide(c criteria, n int) bool {
	from := s.scope()
	var found []pick
	for len(found) < n {
		p, ok := s.choose(c, from)
		if !ok {
			break
		}
		l, r := &s.in.Local[p.local], s.remotes[p.remote]
		p.path = from.used.local(l.Device)
		found = append(found, p)
		if len(found) == n {
			break
		}
		from.used = append(from.used, path{l.Device, r.device})
		if from.used.local(l.Device) >= max(l.Attr.NumPaths, 1) {
			from.leaveDevice(s, l.Device)
		}
		if from.used.remote(r.device) >= int(r.dev.NumPaths) {
			from.leaveRemoteDevice(s, r.device)
		}
	}
	best := 0.0
	for _, p := range found {
		best = max(best, s.scorer.bandwidth(&s.in.Local[p.local], s.remotes[p.remote]))
	}
	added := false
	for _, p := range found {
		if b := s.scorer.bandwidth(&s.in.Local[p.local], s.remotes[p.remote]); b < best/s.limits.MaxRatio && !s.limits.Slow {
			s.outcome(fmt.Sprintf("%s not used: %.2f MB/s, the fastest lane has %.2f MB/s", s.in.Local[p.local].Name(), b/(1<<20), best/(1<<20)))
			continue
		}
		if !s.add(c.lane, p) {
			break
		}
		added = true
	}
	return added
}

// add adds type t to the lane of p. It makes a new lane if there is none yet for the same resource,
// entry and path. It returns false if that would exceed the limit on lanes.
func (s *selector) add(t LaneType, p pick) bool {
	for i := range s.lanes {
		l := &s.lanes[i]
		if l.Local != p.local || l.Remote != p.remote || p.path >= 0 && s.pathSet[i] && l.Path != p.path {
			continue
		}
		if p.path >= 0 && !s.pathSet[i] {
			l.Path, s.pathSet[i] = p.path, true
		}
		l.Types |= 1 << t
		l.Scores[t] = p.score
		return true
	}
	limit := s.limits.Total
	if t.fastPath() {
		limit = s.limits.FastPath
	}
	if len(s.lanes) >= limit {
		s.outcome(fmt.Sprintf("limit of %d lanes reached", limit))
		return false
	}
	l := Lane{Local: p.local, Remote: p.remote, DstMD: NullResource, DstSysDev: SysDevUnknown}
	if p.local >= 0 {
		l = s.in.Lane(p.local, p.remote)
	}
	l.Path, l.Types, l.Scores[t] = max(p.path, 0), 1<<t, p.score
	s.lanes = append(s.lanes, l)
	s.pathSet = append(s.pathSet, p.path >= 0)
	return true
}

// outcome adds a text to the outcome of the last search.
func (s *selector) outcome(text string) {
	if n := len(s.trace.Steps); n > 0 {
		if o := &s.trace.Steps[n-1].Outcome; *o != "" {
			*o += "; " + text
		} else {
			*o = text
		}
	}
}

// config returns the selected lanes, with a list of the lanes for each purpose.
func (s *selector) config() LaneConfig {
	c := LaneConfig{Lanes: s.lanes, AM: NullLane, RkeyPtr: NullLane, CM: NullLane, Keepalive: NullLane}
	sorted := func(t LaneType) (list []uint8) {
		for i := range s.lanes {
			if s.lanes[i].Types.Has(t) {
				list = append(list, uint8(i))
			}
		}
		slices.SortStableFunc(list, func(a, b uint8) int {
			return -compareScores(s.lanes[a].Scores[t], s.lanes[b].Scores[t])
		})
		return list
	}
	first := func(t LaneType) uint8 {
		if l := sorted(t); len(l) > 0 {
			return l[0]
		}
		return NullLane
	}
	c.AM, c.RkeyPtr, c.CM, c.Keepalive = first(LaneAM), first(LaneRkeyPtr), first(LaneCM), first(LaneKeepalive)
	if c.Keepalive != NullLane {
		// A pairwise connection whose transport has a keepalive needs no keepalive lane.
		l := s.lanes[c.Keepalive].Local
		if s.in.Local[l].Attr.Flags&uct.IfaceEpKeepalive != 0 && s.in.Pairs(l) {
			c.Keepalive = NullLane
		}
	}
	c.AMBW, c.RMA, c.RMABW, c.AMO = sorted(LaneAMBW), sorted(LaneRMA), sorted(LaneRMABW), sorted(LaneAMO)
	c.Wireup = s.wireupLane()
	for k := range s.lanes {
		if l := s.lanes[k].Local; l >= 0 && s.in.Pairs(l) {
			c.Paired |= 1 << k
		}
	}
	return c
}

// wireupLane chooses the lane of wireup requests and replies (ucp_wireup_select_wireup_msg_lane):
// the first lane that carries messages without a connection, and whose peer handles them even
// while its application does not progress; else the last lane that can connect pairwise, as tcp
// can.
func (s *selector) wireupLane() uint8 {
	c := criteria{flags: uct.IfaceAMBcopy | uct.IfacePending | s.errFlags(), peer: PeerAMSync, auxiliary: true}
	if !s.in.CM {
		c.flags |= uct.IfaceConnectToIface
		c.peer |= PeerConnectToIface | PeerCBAsync
	}
	last := uint8(NullLane)
	for i := range s.lanes {
		l := &s.lanes[i]
		if l.Local < 0 {
			continue
		}
		local := &s.in.Local[l.Local]
		if c.rejectLocal(local, false) == "" && c.rejectRemote(s.remotes[l.Remote].iface.Attr.Flags) == "" {
			return uint8(i)
		}
		if local.Attr.Flags&uct.IfaceConnectToEP != 0 {
			last = uint8(i)
		}
	}
	return last
}
