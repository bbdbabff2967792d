package proto

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/uct"
)

// maxRanges bounds the ranges of a table. There are up to nine options, of which three have a
// longest and four a shortest length, and three user thresholds, each of which may split a range.
// choice.table merges any ranges beyond maxRanges.
const maxRanges = 16

// Table maps message lengths to protocols. It is a plain value of fixed size; the zero
// Table gives ProtoNone for every length.
type Table struct {
	upTo  [maxRanges]int // last length of each range, ascending; the last in use is MaxInt
	proto [maxRanges]Protocol
}

// FirstRendezvous returns the shortest length that is sent by rendezvous, math.MaxInt if
// none is.
func (t *Table) FirstRendezvous() int {
	from := 0
	for i := range t.upTo {
		if t.proto[i].Rendezvous() {
			return from
		}
		if t.upTo[i] == math.MaxInt {
			break
		}
		from = t.upTo[i] + 1
	}
	return math.MaxInt
}

// Lookup returns the protocol for a message of n bytes, n ≥ 0. It is small enough to be inlined,
// and does not allocate.
func (t *Table) Lookup(n int) Protocol {
	for i := range maxRanges - 1 {
		if n <= t.upTo[i] {
			return t.proto[i]
		}
	}
	return t.proto[maxRanges-1]
}

// MaxShort returns the longest length that is sent by the short eager protocol, provided that all
// shorter messages are; -1 if there is none.
func (t *Table) MaxShort() int { return t.MaxFirst(ProtoEagerShort) }

// MaxFirst returns the longest length of a protocol, provided that all shorter messages use
// it too; -1 if there is none.
func (t *Table) MaxFirst(p Protocol) int {
	if t.proto[0] != p {
		return -1
	}
	return t.upTo[0]
}

// MaxCopied returns the longest length that is sent in one packet by copying, provided that
// all shorter messages are; -1 if there is none.
func (t *Table) MaxCopied() int {
	most := -1
	for i := range t.upTo {
		if t.proto[i] != ProtoEagerShort && t.proto[i] != ProtoEagerBcopy {
			break
		}
		most = t.upTo[i]
	}
	return most
}

// TableInfo is a Table with the estimated times and the reasons of its choices, for display.
type TableInfo struct {
	Title  string
	Ranges []RangeInfo // ranges that cover 0..MaxInt without gaps
}

// RangeInfo is one range of a table: the chosen protocol and its alternatives.
type RangeInfo struct {
	Min, Max int
	Proto    Protocol
	Config   string  // the lanes and their shares
	TimeMin  Seconds // estimated time for Min bytes
	TimeMax  Seconds // estimated time for Max bytes; infinite for the last range
	Forced   string  // the setting that decided the choice; empty if the estimate decided
	Others   []RejectedProto
}

// RejectedProto is a protocol that was not chosen for a range.
type RejectedProto struct {
	Proto  Protocol
	Time   Seconds // estimated time for the range's Min bytes; 0 if it is not possible there
	Reason string
}

// sizedTime returns the estimate for n bytes, infinity for math.MaxInt.
func sizedTime(l uct.Linear, n int) Seconds {
	if n == math.MaxInt {
		return Seconds(math.Inf(1))
	}
	return Seconds(l.At(float64(n)))
}

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

// hostMemory describes memory in titles as ucp_proto_select_param_str does: "host memory", with
// the data class in front unless the data is contiguous.
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

// center pads s on both sides. If the number of blanks is odd, the right side gets one more.
func center(s string, width int) string {
	left := (width - len(s)) / 2
	return strings.Repeat(" ", left) + s + strings.Repeat(" ", width-len(s)-left)
}
