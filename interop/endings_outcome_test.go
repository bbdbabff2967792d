//go:build linux

package interop

import (
	"fmt"
	"slices"
	"strings"
)

// The outcome of one cell of the table.

// outcomeFields are the fields of an outcome.
var outcomeFields = [...]string{"op", "close", "got", "heard", "peer heard", "then"}

// absent is the value of a field that does not apply, such as a close in a process that dies.
const absent = "-"

// endingOutcome is the outcome of one run of a cell.
type endingOutcome [len(outcomeFields)]string

// outcomeSet is the outcomes of several runs: all values of each field.
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

// crashed reports whether a process has crashed in some run.
func (s outcomeSet) crashed() bool {
	return slices.ContainsFunc(s[0], func(v string) bool { return strings.HasPrefix(v, "crash") })
}

// unsure reports whether something seems to wait for ever, or varies between runs.
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

// with adds the values of another set, except those that are waiting.
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

// beyond returns the fields with values that the other set lacks.
func (s outcomeSet) beyond(other outcomeSet) (fields []int) {
	for i, values := range s {
		if slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(other[i], v) }) {
			fields = append(fields, i)
		}
	}
	return fields
}
