package proto

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Lines prints the table in the layout of C's UCX_PROTO_INFO=y and ucx_info -e
// (src/ucp/proto/proto_debug.c), a box with the owner, as "perftest intra-node
// cfg#0", and the title on top. Lines carry no prefix and no newline.
func (i *TableInfo) Lines(owner string) []string {
	rows := [][3]string{{"Range", "Description", "Config"}}
	for _, r := range i.Ranges {
		rows = append(rows, [3]string{rangeText(r.Min, r.Max), r.Proto.Description(), r.Config})
	}
	var w [3]int
	for _, r := range rows {
		for c := range w {
			w[c] = max(w[c], len(r[c]))
		}
	}
	// Two bars and four blanks lie between the columns.
	inner := w[0] + w[1] + w[2] + 6
	if over := max(len(owner), len(i.Title)) - inner; over > 0 {
		w[2] += over
		inner += over
	}
	rule := "+" + strings.Repeat("-", w[0]+2) + "+" + strings.Repeat("-", w[1]+2) + "+" + strings.Repeat("-", w[2]+2) + "+"
	out := []string{
		rule,
		fmt.Sprintf("| %-*s |", inner, owner),
		fmt.Sprintf("| %-*s |", inner, i.Title),
		rule,
		fmt.Sprintf("| %s | %s | %s |", center(rows[0][0], w[0]), center(rows[0][1], w[1]), center(rows[0][2], w[2])),
		rule,
	}
	for _, r := range rows[1:] {
		out = append(out, fmt.Sprintf("| %*s | %-*s | %-*s |", w[0], r[0], w[1], r[1], w[2], r[2]))
	}
	return append(out, rule)
}

// String explains the table: each range with its estimate, and why every other
// protocol was left out.
func (i *TableInfo) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n", i.Title)
	for _, r := range i.Ranges {
		fmt.Fprintf(&b, "  %s: %v on %s, %s", rangeText(r.Min, r.Max), r.Proto, r.Config, usec(r.TimeMin))
		if !math.IsInf(float64(r.TimeMax), 1) && r.Max != r.Min {
			fmt.Fprintf(&b, " to %s", usec(r.TimeMax))
		}
		if r.Forced != "" {
			fmt.Fprintf(&b, ", by %s", r.Forced)
		}
		b.WriteByte('\n')
		for _, o := range r.Others {
			fmt.Fprintf(&b, "    not %v: %s\n", o.Proto, o.Reason)
		}
	}
	return b.String()
}

// hostMemory names data in titles: ucp_proto_select_param_str puts the class in
// front of the memory, for all but contiguous data.
func hostMemory(class DataClass) string {
	if class == DataContig {
		return "host memory"
	}
	return class.String() + " host memory"
}

// rangeText prints a range with its bounds in C's memory units
// (ucs_memunits_range_str).
func rangeText(lo, hi int) string {
	if lo == hi {
		return memUnits(lo)
	}
	return memUnits(lo) + ".." + memUnits(hi)
}

// memUnits prints a size, in a larger unit where it is a multiple of one
// (ucs_memunits_to_str).
func memUnits(n int) string {
	if n == math.MaxInt {
		return "inf"
	}
	unit := 0
	for n != 0 && n%1024 == 0 && unit < len("KMGTP") {
		n /= 1024
		unit++
	}
	s := strconv.Itoa(n)
	if unit > 0 {
		s += "KMGTP"[unit-1 : unit]
	}
	return s
}

// center pads s on both sides, on the left rather less.
func center(s string, width int) string {
	left := (width - len(s)) / 2
	return strings.Repeat(" ", left) + s + strings.Repeat(" ", width-len(s)-left)
}
