package proto

import (
	"math"
	"slices"
	"strconv"

	"github.com/ucx-go/ucx/uct"
)

// option is a protocol that may be chosen, with the message lengths that it supports and its
// cost.
type option struct {
	proto  Protocol
	min    int    // shorter messages use the protocol only if the user's threshold selects it
	floor  int    // shortest message it can carry
	max    int    // longest message it can carry; -1: none
	why    string // why longer messages are rejected; empty: max is a plain limit
	cost   uct.Linear
	config string
	group  group
}

// carries reports whether the protocol can carry a message of n bytes.
func (o *option) carries(n int) bool { return o.floor <= n && n <= o.max }

// group is the set of protocols that a user threshold applies to. If a message reaches several
// thresholds, the later group wins (short 0, bcopy 20, zcopy 30, rendezvous 60 in C's
// cfg_priority).
type group uint8

const (
	groupShort group = iota
	groupBcopy
	groupZcopy
	groupRndv
	numGroups
)

var groupSettings = [numGroups]string{"", "UCX_BCOPY_THRESH", "UCX_ZCOPY_THRESH", "UCX_RNDV_THRESH"}

// noThresholds leaves all choices to the cost estimate.
var noThresholds = [numGroups]Threshold{ThreshAuto, ThreshAuto, ThreshAuto, ThreshAuto}

// choice holds the options of a decision and the user's preferences.
type choice struct {
	options    []option
	thresholds [numGroups]Threshold
	allow      func(Protocol) bool // whether UCX_PROTOS permits a protocol; nil permits all
}

// allowed reports whether the user allows an option (UCX_PROTOS).
func (c *choice) allowed(o *option) bool { return c.allow == nil || c.allow(o.proto) }

// table returns the decision table: for each range of message lengths, the cheapest option that
// the limits of the options and the user's thresholds permit.
func (c *choice) table() (t Table) {
	n := 0
	c.ranges(func(lo, hi int) {
		proto := ProtoNone
		if best, _ := c.best(lo, hi); best >= 0 {
			proto = c.options[best].proto
		}
		if n > 0 && t.proto[n-1] == proto {
			t.upTo[n-1] = hi
			return
		}
		// The last range absorbs any ranges beyond maxRanges, and ends up with the
		// protocol of the longest messages. Protocols and thresholds do not cause so
		// many ranges.
		n = min(n+1, maxRanges)
		t.upTo[n-1], t.proto[n-1] = hi, proto
	})
	return t
}

// explain returns the same table as the method table, with the estimated times and the reason why
// each other option was rejected.
func (c *choice) explain(title string) TableInfo {
	info := TableInfo{Title: title}
	c.ranges(func(lo, hi int) {
		r := c.explainRange(lo, hi)
		if n := len(info.Ranges); n > 0 && info.Ranges[n-1].Proto == r.Proto && info.Ranges[n-1].Forced == r.Forced {
			info.Ranges[n-1].Max, info.Ranges[n-1].TimeMax = r.Max, r.TimeMax
			return
		}
		info.Ranges = append(info.Ranges, r)
	})
	return info
}

// maxCuts is the capacity reserved for the result of cutPoints. It is no bound: a longer result moves
// to the heap. Nine options have at most 9 lengths of their own, 36 pairs and 3 thresholds.
const maxCuts = 64

// ranges splits the lengths from 0 to MaxInt into ranges within which neither a limit of an option
// nor a threshold is crossed, and the order of the costs is the same. It calls fn for each range.
func (c *choice) ranges(fn func(lo, hi int)) {
	var buf [maxCuts]int
	cuts := c.cutPoints(buf[:0])
	for i, lo := range cuts {
		hi := math.MaxInt
		if i+1 < len(cuts) {
			hi = cuts[i+1] - 1
		}
		fn(lo, hi)
	}
}

// cutPoints appends to cuts the first length of each range (see ranges), in ascending order from 0.
func (c *choice) cutPoints(cuts []int) []int {
	cuts = append(cuts, 0)
	add := func(n int) {
		if n > 0 && n < math.MaxInt {
			cuts = append(cuts, n)
		}
	}
	for _, t := range c.thresholds {
		add(int(t))
	}
	for i := range c.options {
		a := &c.options[i]
		if a.max < 0 {
			continue
		}
		add(a.min)
		add(a.floor)
		if a.max < math.MaxInt {
			add(a.max + 1)
		}
		for j := range c.options[:i] {
			b := &c.options[j]
			// The length at which the costs are equal. Parallel costs give NaN or
			// infinity, which is no cut.
			if n := (a.cost.C - b.cost.C) / (b.cost.M - a.cost.M); b.max >= 0 && n >= 1 && n < math.MaxInt/2 {
				add(int(math.Ceil(n)))
			}
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// best returns the index of the best option for lengths lo to hi, -1 if no option is possible, and
// the group that the user's thresholds select. The range must be one that the method ranges has
// passed to fn, so that one option is the best for all of its lengths.
func (c *choice) best(lo, hi int) (best int, wanted group) {
	wanted = c.wanted(lo)
	best = -1
	for i := range c.options {
		if c.reject(i, lo, wanted) == accepted && (best < 0 || c.cheaper(i, best, lo, hi)) {
			best = i
		}
	}
	if best >= 0 {
		return best, wanted
	}
	// Thresholds and the list of allowed protocols are preferences. If they leave no option,
	// the thresholds are ignored first, then the list too.
	for _, any := range [...]bool{false, true} {
		for i := range c.options {
			o := &c.options[i]
			if o.carries(lo) && (any || c.allowed(o)) && (best < 0 || c.cheaper(i, best, lo, hi)) {
				best = i
			}
		}
		if best >= 0 {
			break
		}
	}
	return best, wanted
}

// wanted returns the group that the user's thresholds select for n bytes: the last group whose
// threshold n reaches, and that has an option for n bytes.
func (c *choice) wanted(n int) group {
	wanted := groupShort
	for g := groupBcopy; g < numGroups; g++ {
		if t := c.thresholds[g]; t != ThreshAuto && t != ThreshInf && n >= int(t) && c.fits(g, n) {
			wanted = g
		}
	}
	return wanted
}

// fits reports whether an allowed option of group g can carry n bytes.
func (c *choice) fits(g group, n int) bool {
	for i := range c.options {
		if o := &c.options[i]; o.group == g && o.carries(n) && c.allowed(o) {
			return true
		}
	}
	return false
}

// rejection is the reason why an option is not considered.
type rejection uint8

const (
	accepted rejection = iota
	tooLong
	tooShort
	unlisted // not in the user's list of protocols
	outvoted // the threshold of a later group is reached
	belowThreshold
	tooSmall
)

// reject returns the reason why option i is not considered for n bytes, or accepted. wanted is the
// group that the user's thresholds select.
func (c *choice) reject(i, n int, wanted group) rejection {
	o := &c.options[i]
	switch t := c.thresholds[o.group]; {
	case o.max < n:
		return tooLong
	case n < o.floor:
		return tooShort
	case !c.allowed(o):
		return unlisted
	case o.group < wanted:
		return outvoted
	case t != ThreshAuto && n < int(t):
		return belowThreshold
	case t == ThreshAuto && n < o.min:
		return tooSmall
	}
	return accepted
}

// explainRange returns the chosen protocol for lengths lo to hi, and the reason why each other
// option was rejected.
func (c *choice) explainRange(lo, hi int) RangeInfo {
	r := RangeInfo{Min: lo, Max: hi, Proto: ProtoNone, Config: "-"}
	best, wanted := c.best(lo, hi)
	if best >= 0 {
		b := &c.options[best]
		r.Proto, r.Config = b.proto, b.config
		r.TimeMin, r.TimeMax = sizedTime(b.cost, lo), sizedTime(b.cost, hi)
		if b.group == wanted {
			r.Forced = groupSettings[wanted]
		}
	}
	for i := range c.options {
		if i == best {
			continue
		}
		o := &c.options[i]
		out := RejectedProto{Proto: o.proto}
		if o.max >= lo {
			out.Time = Seconds(o.cost.At(float64(lo)))
		}
		switch c.reject(i, lo, wanted) {
		case accepted:
			out.Reason = "slower, " + usec(out.Time)
		case tooLong:
			out.Reason = o.why
			if out.Reason == "" {
				out.Reason = "limit " + strconv.Itoa(o.max) + " bytes"
			}
		case tooShort:
			out.Reason = "only for " + memUnits(o.floor) + " or more"
		case unlisted:
			out.Reason = "not in UCX_PROTOS"
		case outvoted:
			out.Reason = groupSettings[wanted] + " is reached"
		case belowThreshold:
			out.Reason = "below " + groupSettings[o.group]
		case tooSmall:
			out.Reason = "rendezvous does not pay off below " + memUnits(o.min)
		}
		r.Others = append(r.Others, out)
	}
	return r
}

// cheaper reports whether option i costs less than option j for lengths lo to hi, a range in which
// their order does not change. It compares the costs in the middle of the range. If they are equal
// it returns false, so that best keeps the earlier option.
func (c *choice) cheaper(i, j, lo, hi int) bool {
	at := float64(lo)
	if hi != math.MaxInt {
		at += float64(hi-lo) / 2
	} else {
		at += 1 << 40
	}
	return c.options[i].cost.At(at) < c.options[j].cost.At(at)
}

// usec formats a time in microseconds.
func usec(t Seconds) string { return strconv.FormatFloat(float64(t)*1e6, 'f', 3, 64) + " us" }

// Threshold is the message size from which the user wants a protocol. The zero value is the
// size 0, which includes all messages, even empty ones.
type Threshold int

// Special thresholds.
const (
	ThreshAuto Threshold = -1          // the cost model decides
	ThreshInf  Threshold = math.MaxInt // never, as long as another protocol is possible
)

// RndvScheme restricts how rendezvous data is transferred (UCX_RNDV_SCHEME).
type RndvScheme uint8

// Rendezvous schemes.
const (
	RndvSchemeAuto RndvScheme = iota
	RndvSchemePut             // the sender writes into the receiver's memory
	RndvSchemeAM              // the sender sends active messages
	RndvSchemeGet             // the receiver reads the sender's memory
	RndvSchemePtr             // the receiver maps the sender's memory and copies
)

// ProtoSettings are the user's settings for choosing protocols. DefaultProtoSettings returns the
// initial values.
type ProtoSettings struct {
	BcopyThresh Threshold // UCX_BCOPY_THRESH: size from which messages are copied instead of short
	ZcopyThresh Threshold // UCX_ZCOPY_THRESH: size from which messages are sent zero-copy
	RndvThresh  Threshold // UCX_RNDV_THRESH for this peer: size from which rendezvous is used
	RndvFast    Threshold // UCX_RNDV_SEND_NBR_THRESH: replaces a RndvThresh of auto for SendFast
	RndvScheme  RndvScheme
	CopyBW      float64 // UCX_BCOPY_BW in bytes per second; 0: a default

	// RndvBias is the relative time by which a rendezvous may be slower than an eager
	// message and still be chosen (UCX_RNDV_PERF_DIFF).
	RndvBias float64

	Spread Spread // how rendezvous data is spread over lanes

	// Allow reports whether UCX_PROTOS permits a protocol; nil permits all. If none of the
	// permitted protocols is possible, the others are used.
	Allow func(Protocol) bool
}

// DefaultProtoSettings returns C's defaults.
func DefaultProtoSettings() ProtoSettings {
	return ProtoSettings{
		BcopyThresh: ThreshAuto,
		ZcopyThresh: ThreshAuto,
		RndvThresh:  ThreshAuto,
		RndvFast:    256 << 10,
	}
}

// rndv returns the rendezvous threshold for sends in a mode.
func (s *ProtoSettings) rndv(mode SendMode) Threshold {
	if s.RndvThresh == ThreshAuto && mode&SendFast != 0 {
		return s.RndvFast
	}
	return s.RndvThresh
}

// bias returns RndvBias limited to -1..1. NaN gives 0.
func (s *ProtoSettings) bias() float64 {
	if math.IsNaN(s.RndvBias) {
		return 0
	}
	return min(max(s.RndvBias, -1), 1)
}
