//go:build linux

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The table as text.

const endingsFile = "testdata/endings.txt"

// endingColumns returns the columns of the text.
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

// writeAligned aligns the first column only; some values would make others too wide.
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

// readEndings reads the table, which may not exist yet.
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

// splitColumns splits a line at the bars between columns; those within a word separate values.
func splitColumns(line string) []string {
	parts := strings.Split(line+" ", " | ")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
