package proto

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// option is a protocol that may be chosen: where it is possible and what it
// costs there.
type option struct {
	proto  Protocol
	min    int // shorter messages do not need it, unless the user's threshold says so
	max    int // longest message it can carry; -1: none
	why    string
	cost   Linear
	config string
	group  group
}

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

// choose makes the table: in every range the cheapest of the options that the
// limits and the user's thresholds leave.
func choose(title string, options []option, thresholds [numGroups]Threshold) TableInfo {
	cuts := cutPoints(options, thresholds)
	info := TableInfo{Title: title}
	for i, lo := range cuts {
		hi := math.MaxInt
		if i+1 < len(cuts) {
			hi = cuts[i+1] - 1
		}
		r := chooseRange(lo, hi, options, thresholds)
		if n := len(info.Ranges); n > 0 && info.Ranges[n-1].Proto == r.Proto && info.Ranges[n-1].Forced == r.Forced {
			info.Ranges[n-1].Max, info.Ranges[n-1].TimeMax = r.Max, r.TimeMax
			continue
		}
		info.Ranges = append(info.Ranges, r)
	}
	return info
}

// cutPoints returns the first lengths, ascending from 0, of ranges inside which
// neither limits, thresholds nor the order of costs change.
func cutPoints(options []option, thresholds [numGroups]Threshold) []int {
	cuts := []int{0}
	add := func(n int) {
		if n > 0 && n < math.MaxInt {
			cuts = append(cuts, n)
		}
	}
	for _, t := range thresholds {
		add(int(t))
	}
	for i := range options {
		a := &options[i]
		add(a.min)
		if a.max >= 0 && a.max < math.MaxInt {
			add(a.max + 1)
		}
		for j := range options[:i] {
			b := &options[j]
			// The length at which the costs meet. A quotient that is no length (of
			// parallel costs: NaN or infinite) is no cut.
			if n := (a.cost.C - b.cost.C) / (b.cost.M - a.cost.M); n >= 1 && n < 1<<62 {
				add(int(math.Ceil(n)))
			}
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// chooseRange chooses for lo..hi, where one option is the best throughout.
func chooseRange(lo, hi int, options []option, thresholds [numGroups]Threshold) RangeInfo {
	r := RangeInfo{Min: lo, Max: hi}

	// The last group whose threshold is passed, if any of it can carry the
	// message, is what the user asked for.
	wanted := groupShort
	for g := groupBcopy; g < numGroups; g++ {
		if t := thresholds[g]; t != ThreshAuto && t != ThreshInf && lo >= int(t) && groupFits(options, g, lo) {
			wanted = g
		}
	}
	reject := func(o *option) string {
		t := thresholds[o.group]
		switch {
		case o.max < lo:
			if o.why != "" {
				return o.why
			}
			return "limit " + strconv.Itoa(o.max) + " bytes"
		case o.group < wanted:
			return groupSettings[wanted] + " is passed"
		case t != ThreshAuto && lo < int(t):
			return "below " + groupSettings[o.group]
		case t == ThreshAuto && lo < o.min:
			return "not worth an offer below " + memUnits(o.min)
		}
		return ""
	}

	best := -1
	for i := range options {
		if reject(&options[i]) == "" && (best < 0 || cheaper(&options[i], &options[best], lo, hi)) {
			best = i
		}
	}
	// Nothing is left between thresholds that leave no way: then what is possible
	// counts, the wish does not.
	if best < 0 {
		for i := range options {
			if options[i].max >= lo && (best < 0 || cheaper(&options[i], &options[best], lo, hi)) {
				best = i
			}
		}
	}
	if best < 0 {
		r.Proto, r.Config = ProtoNone, "-"
	} else {
		b := &options[best]
		r.Proto, r.Config = b.proto, b.config
		r.TimeMin, r.TimeMax = sizedTime(b.cost, lo), sizedTime(b.cost, hi)
		if b.group == wanted {
			r.Forced = groupSettings[wanted]
		}
	}
	for i := range options {
		if i == best {
			continue
		}
		o := &options[i]
		rej := RejectedProto{Proto: o.proto, Reason: reject(o)}
		if o.max >= lo {
			rej.Time = o.cost.At(float64(lo))
			if rej.Reason == "" {
				rej.Reason = fmt.Sprintf("slower, %s", usec(rej.Time))
			}
		}
		r.Others = append(r.Others, rej)
	}
	return r
}

// groupFits reports whether an option of a group can carry n bytes.
func groupFits(options []option, g group, n int) bool {
	for i := range options {
		if options[i].group == g && options[i].max >= n {
			return true
		}
	}
	return false
}

// cheaper compares two options in the middle of a range in which their order
// does not change. The earlier option wins a draw.
func cheaper(a, b *option, lo, hi int) bool {
	at := float64(lo)
	if hi != math.MaxInt {
		at += float64(hi-lo) / 2
	} else {
		at += 1 << 40
	}
	return a.cost.At(at) < b.cost.At(at)
}

// usec prints a time.
func usec(t float64) string { return strconv.FormatFloat(t*1e6, 'f', 3, 64) + " us" }
