//go:build linux

package interop

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const endingsFile = "testdata/endings.txt"

// outcomeFields are what is seen of a cell.
var outcomeFields = [...]string{"op", "close", "got", "heard", "peer heard", "then"}

// absent is said of what there is not: a close where a process dies.
const absent = "-"

// endingOutcome is what was seen in one run of a cell.
type endingOutcome [len(outcomeFields)]string

// outcomeSet is what was seen in several: of each field each value.
type outcomeSet [len(outcomeFields)][]string

func (s *outcomeSet) add(o endingOutcome) {
	for i, v := range o {
		if v != "" && !slices.Contains(s[i], v) {
			s[i] = append(s[i], v)
			slices.Sort(s[i])
		}
	}
}

func (s outcomeSet) empty() bool { return len(s[0]) == 0 }

// crashed says that a process has ended by itself, at times.
func (s outcomeSet) crashed() bool {
	return slices.ContainsFunc(s[0], func(v string) bool { return strings.HasPrefix(v, "crash") })
}

// unsure says that something seems to wait for ever, or came out in several ways.
func (s outcomeSet) unsure() bool {
	for _, values := range s {
		for _, v := range values {
			if len(values) > 1 || strings.Contains(v, waits) || v == nothing {
				return true
			}
		}
	}
	return false
}

func (s outcomeSet) clone() (c outcomeSet) {
	for i, values := range s {
		c[i] = slices.Clone(values)
	}
	return c
}

// with adds what another set has, but for what waits.
func (s *outcomeSet) with(other outcomeSet) {
	for i, values := range other {
		for _, v := range values {
			if strings.Contains(v, waits) || v == nothing || v == absent {
				continue
			}
			var o endingOutcome
			o[i] = v
			s.add(o)
		}
	}
}

func (s outcomeSet) String() string {
	if s.empty() {
		return ""
	}
	var words []string
	for _, values := range s {
		words = append(words, strings.Join(values, "|"))
	}
	return strings.Join(words, " ")
}

func parseOutcomes(text string) (s outcomeSet, err error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return s, nil
	}
	if len(words) != len(s) {
		return s, fmt.Errorf("%d words: %q", len(words), text)
	}
	for i, w := range words {
		s[i] = strings.Split(w, "|")
	}
	return s, nil
}

// beyond returns the fields with values that another set has not.
func (s outcomeSet) beyond(other outcomeSet) (fields []int) {
	for i, values := range s {
		if slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(other[i], v) }) {
			fields = append(fields, i)
		}
	}
	return fields
}

// endings is the table: of each link, of each cell, of each column what was seen.
type endings struct {
	writing sync.Mutex // one write at a time
	mu      sync.Mutex
	rows    map[string]map[string]outcomeSet // guarded by mu; by link and cell, and by column
}

func rowOf(link, cell string) string { return link + " " + cell }

func (e *endings) at(link, cell, column string) outcomeSet {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rows[rowOf(link, cell)][column]
}

func (e *endings) set(link, cell, column string, s outcomeSet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	row := rowOf(link, cell)
	if e.rows[row] == nil {
		e.rows[row] = make(map[string]outcomeSet)
	}
	e.rows[row][column] = s
}

// compare compares what was seen with what is recorded, or with what C is recorded to do.
func (e *endings) compare(link, cell, column string, seen outcomeSet) error {
	recorded := e.at(link, cell, column)
	if recorded.empty() {
		return nil // no such release when the text was made
	}
	for _, i := range seen.beyond(recorded) {
		theirs := e.at(link, cell, counterpart(column, e.releases()))
		value := seen[i][0]
		if slices.Contains(theirs[i], value) || isFailure(value) && slices.ContainsFunc(recorded[i], isFailure) {
			continue // which error is found first depends on the moment
		}
		if slices.Contains(recorded[i], waits) && value != nothing && value != absent {
			continue // it has ended, which is no worse
		}
		return fmt.Errorf("%s %s, %s: %s is %s, the text has %s; all: %v, recorded %v",
			link, cell, column, outcomeFields[i], seen[i][0], strings.Join(recorded[i], "|"), seen, recorded)
	}
	return nil
}

// isFailure says that a word is for a failed operation.
func isFailure(word string) bool { return failure.MatchString(word) }

var failure = regexp.MustCompile(`^` + failures + `$`)

// counterpart is the column of C with C that a column is compared with: of its own release,
// and where there is no C the newest.
func counterpart(column string, releases []string) string {
	_, release, found := strings.Cut(column, " ")
	if !found && len(releases) > 0 {
		release = releases[len(releases)-1]
	}
	return "CC " + release
}

// releases are those of C in the table, in their order.
func (e *endings) releases() (list []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, columns := range e.rows {
		for column := range columns {
			if _, r, found := strings.Cut(column, " "); found && !slices.Contains(list, r) {
				list = append(list, r)
			}
		}
	}
	slices.SortFunc(list, cmp.Compare)
	return list
}

// unexplained lists the differences from C without a reason, and the reasons without a
// difference. Those of the text are looked at, whatever was run.
func (e *endings) unexplained() (flaws []string) {
	used := make(map[*endingReason]bool)
	e.each(func(link, cell, column string, field int, what string) {
		reason := reasonFor(what)
		if reason == nil {
			flaws = append(flaws, "no reason is given for the difference from C: "+what)
			return
		}
		used[reason] = true
	})
	for k := range endingReasons {
		if r := &endingReasons[k]; !used[r] {
			flaws = append(flaws, fmt.Sprintf("reason %s is for no difference", r.name))
		}
	}
	return flaws
}

// unsure says that a cell seems to wait for ever, differs from run to run, or from C without a
// reason: where the machine is slow, that may be for lack of patience.
func (e *endings) unsure(link, cell, column string) bool {
	seen := e.at(link, cell, column)
	if seen.unsure() {
		return true
	}
	found := false
	e.differences(link, cell, column, e.releases(), func(_ int, what string) { found = found || reasonFor(what) == nil })
	return found
}

// each calls fn for each difference from C.
func (e *endings) each(fn func(link, cell, column string, field int, what string)) {
	releases := e.releases()
	for _, l := range links {
		for _, c := range l.cells() {
			for _, column := range endingColumns(releases) {
				e.differences(l.name, c.String(), column, releases, func(field int, what string) {
					fn(l.name, c.String(), column, field, what)
				})
			}
		}
	}
}

// differences calls fn for those of one column.
func (e *endings) differences(link, cell, column string, releases []string, fn func(field int, what string)) {
	seen, theirs := e.at(link, cell, column), e.at(link, cell, counterpart(column, releases))
	if theirs.empty() {
		return
	}
	for _, i := range seen.beyond(theirs) {
		if i > 0 && (theirs.crashed() || seen.crashed()) {
			continue // the rest says nothing
		}
		fn(i, fmt.Sprintf("%s %s, %s, %s: %s, C %s", link, cell, column, outcomeFields[i],
			strings.Join(seen[i], "|"), strings.Join(theirs[i], "|")))
	}
}

func reasonFor(what string) *endingReason {
	for k := range endingReasons {
		if r := &endingReasons[k]; r.of.MatchString(what) {
			return r
		}
	}
	return nil
}

// endingColumns are the columns of the text.
func endingColumns(releases []string) []string {
	list := []string{"GG"}
	for _, r := range releases {
		for _, p := range []string{"CC", "GC", "CG"} {
			list = append(list, p+" "+r)
		}
	}
	return list
}

const endingsHead = `# How endpoints end: what C UCX does, and what this module does. Written by TestEndings
# of package interop (FULL_TESTS=1 go test ./interop -run TestEndings -update); read there
# what the script of a line is.
#
# A line is: operation, phase, how it ends, who ends it: the side that has started the
# operation (self) or the other one (peer). Phases:
#
#	unseen    the peer has not looked since the operation was started
#	arrived   it has the message, or the offer of it, and no receive
#	matched   it has posted a receive, and has not looked
#	fetching  it has posted the receive for an offer; the sender has not looked
#	posted    the operation is a receive that nobody has sent to
#	done      the operation has ended at both sides
#
# Where the peer has no receive yet it posts one behind the end (for posted: sends).
#
# Then what was seen, a column for each pair of programs, the operation's side first: G is this
# module, C is C UCX. CC has six words for: the status of the operation; of the close; what the
# peer's receive, or memory, has (for posted: how its send has ended); what the error handler
# was told at the operation's side, and at the peer's; how the close of the endpoint of the
# other side ended, which it does when nothing happens any more. "a>b" is a before and b
# behind that close; "a|b" is a in some runs and b in others. The other columns are "=" where
# they are as CC; GG is compared with the last release. Empty: no such connection can be made
# by that release. Links with @ connect by socket address, and the
# operation's side is the client; those with -none are in error mode none.
#
# The last column names the reasons for the differences:
#
`

// write writes the table.
func (e *endings) write(path string) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	releases := e.releases()
	columns := endingColumns(releases)
	var b strings.Builder
	b.WriteString(endingsHead)
	notes := make(map[string][]string)
	e.each(func(link, cell, _ string, _ int, what string) {
		row := rowOf(link, cell)
		name := "?"
		if r := reasonFor(what); r != nil {
			name = r.name
		}
		if !slices.Contains(notes[row], name) {
			notes[row] = append(notes[row], name)
		}
	})
	for _, r := range endingReasons {
		fmt.Fprintf(&b, "#\t%s: %s\n", r.name, strings.Join(strings.Fields(r.text), " "))
	}
	for _, l := range links {
		var rows [][]string
		rows = append(rows, append(append([]string{"# " + l.name}, columns...), "reasons"))
		for _, c := range l.cells() {
			row := []string{c.String()}
			for _, column := range columns {
				seen := e.at(l.name, c.String(), column)
				theirs := e.at(l.name, c.String(), counterpart(column, releases))
				text := seen.String()
				if !strings.HasPrefix(column, "CC") && !seen.empty() && text == theirs.String() {
					text = "="
				}
				row = append(row, text)
			}
			rows = append(rows, append(row, strings.Join(notes[rowOf(l.name, c.String())], " ")))
		}
		fmt.Fprintf(&b, "\nlink %s\n", l.name)
		writeAligned(&b, rows)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// writeAligned aligns the first column: the others would get wide by few of their values.
func writeAligned(b *strings.Builder, rows [][]string) {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	for _, row := range rows {
		var line strings.Builder
		for i, text := range row {
			if i > 0 {
				line.WriteString(" | ")
			}
			if i == 0 {
				text = fmt.Sprintf("%-*s", width, text)
			}
			line.WriteString(text)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// readEndings reads the table; there may be none yet.
func readEndings(path string) (*endings, error) {
	e := &endings{rows: make(map[string]map[string]outcomeSet)}
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	var link string
	var columns []string
	for n, line := range strings.Split(string(text), "\n") {
		name, isLink := strings.CutPrefix(line, "link ")
		if isLink {
			link, columns = name, nil
			continue
		}
		if link == "" || line == "" {
			continue
		}
		parts := splitColumns(line)
		if columns == nil {
			columns = parts[1 : len(parts)-1]
			continue
		}
		if len(parts) != len(columns)+2 {
			return nil, fmt.Errorf("%s:%d: %d columns", path, n+1, len(parts))
		}
		var releases []string
		for _, c := range columns {
			if r, found := strings.CutPrefix(c, "CC "); found {
				releases = append(releases, r)
			}
		}
		texts := make(map[string]string)
		for i, c := range columns {
			texts[c] = parts[i+1]
		}
		for _, c := range columns {
			text := texts[c]
			if text == "=" {
				text = texts[counterpart(c, releases)]
			}
			s, err := parseOutcomes(text)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, n+1, err)
			}
			if !s.empty() {
				e.set(link, parts[0], c, s)
			}
		}
	}
	return e, nil
}

// splitColumns cuts a line at its bars; those within a word separate values.
func splitColumns(line string) []string {
	parts := strings.Split(line+" ", " | ")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
