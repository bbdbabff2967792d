package proto

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Lines prints the table in the layout of C's UCX_PROTO_INFO=y and ucx_info -e
// (src/ucp/proto/proto_debug.c): a box with the owner, for example "perftest intra-node
// cfg#0", and the title on top. Lines have no prefix and no newline.
func (i *TableInfo) Lines(owner string) []string { return i.box(owner, nil) }

// UsedLines is Lines with a first column that counts the uses of each range, as C prints
// with UCX_PROTO_INFO=used.
func (i *TableInfo) UsedLines(owner string, counts []uint64) []string { return i.box(owner, counts) }

func (i *TableInfo) box(owner string, counts []uint64) []string {
	columns := []column{{head: "Range", right: true}, {head: "Description"}, {head: "Config"}}
	for _, r := range i.Ranges {
		columns[0].add(rangeText(r.Min, r.Max))
		columns[1].add(r.Proto.Description())
		columns[2].add(r.Config)
	}
	if counts != nil {
		c := column{head: "Count", right: true}
		for _, n := range counts {
			c.add(strconv.FormatUint(n, 10))
		}
		columns = append([]column{c}, columns...)
	}
	return boxed(columns, owner, i.Title)
}

// column is a column of a table.
type column struct {
	head  string
	right bool // cells are flushed right
	cells []string
}

func (c *column) add(cell string) { c.cells = append(c.cells, cell) }

// boxed draws a table with titles on top. The last column is as wide as the titles need.
func boxed(columns []column, titles ...string) []string {
	widths := make([]int, len(columns))
	inner := 3 * (len(columns) - 1) // a bar and two blanks lie between columns
	for k, c := range columns {
		widths[k] = len(c.head)
		for _, cell := range c.cells {
			widths[k] = max(widths[k], len(cell))
		}
		inner += widths[k]
	}
	for _, t := range titles {
		if over := len(t) - inner; over > 0 {
			widths[len(columns)-1] += over
			inner += over
		}
	}
	rule := "+"
	heads, rows := "|", make([]string, len(columns[0].cells))
	for k, c := range columns {
		rule += strings.Repeat("-", widths[k]+2) + "+"
		heads += " " + center(c.head, widths[k]) + " |"
		for n, cell := range c.cells {
			if c.right {
				rows[n] += fmt.Sprintf(" %*s |", widths[k], cell)
			} else {
				rows[n] += fmt.Sprintf(" %-*s |", widths[k], cell)
			}
		}
	}
	out := []string{rule}
	for _, t := range titles {
		out = append(out, fmt.Sprintf("| %-*s |", inner, t))
	}
	out = append(out, rule, heads, rule)
	for _, r := range rows {
		out = append(out, "|"+r)
	}
	return append(out, rule)
}

// String explains the table: each range with its estimate, and the reason why every other
// protocol was rejected.
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
