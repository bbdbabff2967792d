//go:build linux

package interop

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// endings is the table of outcomes, for each link, cell and column.
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

// compare compares an outcome with the recorded ones, or with those recorded for C.
func (e *endings) compare(link, cell, column string, seen outcomeSet) error {
	recorded := e.at(link, cell, column)
	if recorded.empty() {
		return nil // the release is not in the table
	}
	for _, i := range seen.beyond(recorded) {
		theirs := e.at(link, cell, counterpart(column, e.releases()))
		value := seen[i][0]
		if slices.Contains(theirs[i], value) || isFailure(value) && slices.ContainsFunc(recorded[i], isFailure) {
			continue // it varies which error is detected first
		}
		if slices.Contains(recorded[i], waits) && value != nothing && value != absent {
			continue // it has ended, which is not worse
		}
		return fmt.Errorf("%s %s, %s: %s is %s, the text has %s; all: %v, recorded %v",
			link, cell, column, outcomeFields[i], seen[i][0], strings.Join(recorded[i], "|"), seen, recorded)
	}
	return nil
}

// isFailure reports whether a word means a failed operation.
func isFailure(word string) bool { return failure.MatchString(word) }

var failure = regexp.MustCompile(`^` + failures + `$`)

// counterpart is the column of C with C to compare a column with: that of its release, or of the
// newest one if C takes no part.
func counterpart(column string, releases []string) string {
	_, release, found := strings.Cut(column, " ")
	if !found && len(releases) > 0 {
		release = releases[len(releases)-1]
	}
	return "CC " + release
}

// releases returns the releases of C in the table, sorted.
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

// unexplained lists differences from C without a reason, and reasons without a difference. It uses
// the recorded table, not the outcomes of this run.
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

// unsure reports whether a cell seems to wait for ever, varies between runs, or differs from C
// without a reason. On a slow machine the cause may be that the test did not wait long enough.
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

// differences calls fn for each difference in one column.
func (e *endings) differences(link, cell, column string, releases []string, fn func(field int, what string)) {
	seen, theirs := e.at(link, cell, column), e.at(link, cell, counterpart(column, releases))
	if theirs.empty() {
		return
	}
	for _, i := range seen.beyond(theirs) {
		if i > 0 && (theirs.crashed() || seen.crashed()) {
			continue // the other fields mean nothing
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
