package proto

import (
	"math"
	"slices"
	"strconv"

	"github.com/ucx-go/ucx/uct"
)

// option is a protocol that may be chosen: where it is possible and what it
// costs there.
type option struct {
	proto  Protocol
	min    int // shorter messages do not need it, unless the user's threshold says so
	floor  int // shorter messages it cannot carry
	max    int // longest message it can carry; -1: none
	why    string
	cost   uct.Linear
	config string
	group  group
}

// carries reports whether n bytes are within the limits.
func (o *option) carries(n int) bool { return o.floor <= n && n <= o.max }

// group is what a user threshold speaks about. When several thresholds are
// passed the later group wins (short 0, bcopy 20, zcopy 30, rendezvous 60 in
// C's cfg_priority).
type group uint8

const (
	groupShort group = iota
	groupBcopy
	groupZcopy
	groupRndv
	numGroups
)

var groupSettings = [numGroups]string{"", "UCX_BCOPY_THRESH", "UCX_ZCOPY_THRESH", "UCX_RNDV_THRESH"}

// noThresholds leaves everything to the estimate.
var noThresholds = [numGroups]Threshold{ThreshAuto, ThreshAuto, ThreshAuto, ThreshAuto}

// choice is what to choose from, and how.
type choice struct {
	options    []option
	thresholds [numGroups]Threshold
	allow      func(Protocol) bool // nil: any
}

// allowed reports whether the user lets an option be chosen.
func (c *choice) allowed(o *option) bool { return c.allow == nil || c.allow(o.proto) }

// table makes the table: in every range the cheapest of the options that the
// limits and the user's thresholds leave.
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
		// More changes than protocols and thresholds can make: the rest goes the
		// way of the longest messages.
		n = min(n+1, maxRanges)
		t.upTo[n-1], t.proto[n-1] = hi, proto
	})
	return t
}

// explain makes the same table with its reasons.
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

// maxCuts is room for the cuts of nine options and four thresholds: two per
// option, one per pair of options and one per threshold.
const maxCuts = 64

// ranges calls fn for each range inside which neither limits, thresholds nor the
// order of costs change, from 0 to MaxInt.
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

// cutPoints appends the first lengths of the ranges, ascending from 0.
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
			// The length at which the costs meet. A quotient that is no length (of
			// parallel costs: NaN or infinite) is no cut.
			if n := (a.cost.C - b.cost.C) / (b.cost.M - a.cost.M); b.max >= 0 && n >= 1 && n < math.MaxInt/2 {
				add(int(math.Ceil(n)))
			}
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// best returns the option for lo..hi, where one is the best throughout; -1 if
// none is possible. wanted is the group whose threshold decided.
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
	// Thresholds that leave no way are a wish, and so is a list of protocols; what is
	// possible counts.
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

// wanted is the last group whose threshold is passed, if any of it can carry the
// message: what the user asked for.
func (c *choice) wanted(n int) group {
	wanted := groupShort
	for g := groupBcopy; g < numGroups; g++ {
		if t := c.thresholds[g]; t != ThreshAuto && t != ThreshInf && n >= int(t) && c.fits(g, n) {
			wanted = g
		}
	}
	return wanted
}

// fits reports whether an option of a group can carry n bytes.
func (c *choice) fits(g group, n int) bool {
	for i := range c.options {
		if o := &c.options[i]; o.group == g && o.carries(n) && c.allowed(o) {
			return true
		}
	}
	return false
}

// rejection is why an option is left out.
type rejection uint8

const (
	accepted rejection = iota
	tooLong
	tooShort
	unlisted // by the user
	outvoted // by the threshold of a later group
	belowThreshold
	tooSmall
)

// reject says whether an option is left out for n bytes.
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

// explainRange tells the choice for lo..hi and what became of the others.
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
			out.Reason = "from " + memUnits(o.floor) + " on"
		case unlisted:
			out.Reason = "not in UCX_PROTOS"
		case outvoted:
			out.Reason = groupSettings[wanted] + " is passed"
		case belowThreshold:
			out.Reason = "below " + groupSettings[o.group]
		case tooSmall:
			out.Reason = "not worth an offer below " + memUnits(o.min)
		}
		r.Others = append(r.Others, out)
	}
	return r
}

// cheaper compares two options in the middle of a range in which their order
// does not change. The earlier option wins a draw.
func (c *choice) cheaper(i, j, lo, hi int) bool {
	at := float64(lo)
	if hi != math.MaxInt {
		at += float64(hi-lo) / 2
	} else {
		at += 1 << 40
	}
	return c.options[i].cost.At(at) < c.options[j].cost.At(at)
}

// usec prints a time.
func usec(t Seconds) string { return strconv.FormatFloat(float64(t)*1e6, 'f', 3, 64) + " us" }
