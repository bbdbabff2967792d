//go:build linux

package interop

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// outcome is the state of one cell of the matrix.
type outcome string

const (
	ok          outcome = "ok"
	failed      outcome = "FAIL"
	unsupported outcome = "uns"
	notRun      outcome = ""
)

// row is an operation in one direction.
type row struct{ operation, direction string }

// column is a combination of settings and device.
type column struct{ group, name string }

// matrix contains the outcomes with one peer. Rows, sizes and columns are in the order of their
// first appearance.
type matrix struct {
	title   string
	rows    []row
	columns []column
	sizes   map[row][]int
	cells   map[cell]outcome
	reasons []string // of the failures, in order
}

type cell struct {
	row
	column
	size int
}

func newMatrix(title string) *matrix {
	return &matrix{title: title, sizes: make(map[row][]int), cells: make(map[cell]outcome)}
}

// set stores an outcome.
func (m *matrix) set(r row, size int, c column, o outcome) {
	if !slices.Contains(m.rows, r) {
		m.rows = append(m.rows, r)
	}
	if !slices.Contains(m.columns, c) {
		m.columns = append(m.columns, c)
	}
	if !slices.Contains(m.sizes[r], size) {
		m.sizes[r] = append(m.sizes[r], size)
		slices.Sort(m.sizes[r])
	}
	m.cells[cell{r, c, size}] = o
}

// fail stores a failure and reports it to t.
func (m *matrix) fail(t *testing.T, at row, size int, c column, err error) {
	t.Helper()
	m.set(at, size, c, failed)
	reason := fmt.Sprintf("%s, %s, %d bytes, %s, %s: %v", at.operation, at.direction, size, c.group, c.name, err)
	m.reasons = append(m.reasons, reason)
	t.Error(reason)
}

// sparse makes neighboring columns share their combinations, unless a long form was requested.
var sparse = !needtest.Full && !rdmaLong

// everyOther reports whether the sum of the numbers of a combination is even: of two neighbors with
// similar combinations, each runs one half.
func everyOther(numbers ...int) bool {
	sum := 0
	for _, n := range numbers {
		sum += n
	}
	return sum%2 == 0
}

// noSize is the size of rows without sizes.
const noSize = -1

// print writes the matrix: one line for each row, or several if the outcome depends on the size,
// then the reasons of failures and the counts. Not every column has run every size. It is written
// at once, as other tests may print theirs.
func (m *matrix) print(to io.Writer) {
	w := new(strings.Builder)
	const label = 44
	fmt.Fprintf(w, "\n%-*s", label, m.title)
	for i, c := range m.columns {
		text := ""
		if i == 0 || m.columns[i-1].group != c.group {
			text = c.group
		}
		fmt.Fprintf(w, " %-*s", m.width(c), text)
	}
	fmt.Fprintf(w, "\n%-*s", label, "")
	for _, c := range m.columns {
		fmt.Fprintf(w, " %-*s", m.width(c), c.name)
	}
	fmt.Fprintln(w)
	for _, r := range m.rows {
		for _, line := range m.alike(r) {
			text := fmt.Sprintf("%-16s %-12s %s", r.operation, r.direction, span(line.sizes))
			fmt.Fprintf(w, "%-*s", label, text)
			for _, c := range m.columns {
				fmt.Fprintf(w, " %-*s", m.width(c), line.outcomes[c])
			}
			fmt.Fprintln(w)
		}
	}
	// Repeated here, where a reader of the last lines finds them.
	for _, reason := range m.reasons {
		fmt.Fprintln(w, reason)
	}
	fmt.Fprintf(w, "%s: %s\n", m.title, m.count())
	io.WriteString(to, w.String())
}

// width returns the width of a column: a group's name must fit over its columns.
func (m *matrix) width(c column) int {
	in := 0
	for _, other := range m.columns {
		if other.group == c.group {
			in++
		}
	}
	return max(len(c.name), len(failed), (len(c.group)+in-1)/in)
}

// line is sizes of a row with equal outcomes, wherever they were run.
type line struct {
	sizes    []int
	outcomes map[column]outcome
}

// alike splits the sizes of a row into lines.
func (m *matrix) alike(r row) []line {
	var lines []line
	for _, size := range m.sizes[r] {
		if n := len(lines); n == 0 || !m.fits(lines[n-1], r, size) {
			lines = append(lines, line{outcomes: make(map[column]outcome)})
		}
		last := &lines[len(lines)-1]
		last.sizes = append(last.sizes, size)
		for _, c := range m.columns {
			if o := m.cells[cell{r, c, size}]; o != notRun {
				last.outcomes[c] = o
			}
		}
	}
	return lines
}

// fits reports whether a size has the outcomes of a line.
func (m *matrix) fits(l line, r row, size int) bool {
	for _, c := range m.columns {
		have, more := l.outcomes[c], m.cells[cell{r, c, size}]
		if have != notRun && more != notRun && have != more {
			return false
		}
	}
	return true
}

// span names consecutive sizes.
func span(sizes []int) string {
	first, last := sizes[0], sizes[len(sizes)-1]
	switch {
	case first == noSize:
		return ""
	case first == last:
		return sizeName(first)
	}
	return sizeName(first) + ".." + sizeName(last)
}

// sizeName returns a number of bytes as people write it.
func sizeName(size int) string {
	switch {
	case size >= 1<<20 && size%(1<<20) == 0:
		return fmt.Sprintf("%dM", size>>20)
	case size >= 1<<10 && size%(1<<10) == 0:
		return fmt.Sprintf("%dK", size>>10)
	}
	return fmt.Sprint(size)
}

// count counts the outcomes.
func (m *matrix) count() string {
	counts := make(map[outcome]int)
	for _, o := range m.cells {
		counts[o]++
	}
	var parts []string
	for _, o := range []struct {
		outcome
		name string
	}{{ok, "ok"}, {failed, "failed"}, {unsupported, "unsupported"}, {notRun, "not run"}} {
		if n := counts[o.outcome]; n > 0 || o.outcome == ok || o.outcome == failed {
			parts = append(parts, fmt.Sprintf("%d %s", n, o.name))
		}
	}
	return strings.Join(parts, ", ")
}
