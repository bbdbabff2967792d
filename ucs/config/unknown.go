package config

import "sort"

// UnknownName is a name that was set but that no section knows, or a transport in a list
// that there is none of.
type UnknownName struct {
	Name    string // without UCX_
	Origin  Origin
	Nearest string // the nearest known name, without UCX_; "" if none is near

	// NoEffect is why the setting has no effect, if it is one of C UCX that means nothing here;
	// "" for a name that C does not know either, which most likely is misspelt.
	NoEffect string
}

// maxDistance is the number of edits within which a known name is worth
// mentioning, as in C UCX.
const maxDistance = 3

// reserved are names that have a meaning but are no settings.
var reserved = map[string]bool{"CONFIG_DIR": true}

// Unknown returns the names that were set in the environment, in a file or by a
// call and that no section knows, ordered by name. It knows the sections of the
// packages linked into the program: settings of absent transports are unknown.
func (s *Set) Unknown() []UnknownName {
	if s == nil {
		return nil
	}
	known := knownNames()
	seen := make(map[string]Origin)
	for _, l := range s.layers {
		for name, e := range l {
			if !known[name] && !reserved[name] {
				seen[name] = e.origin
			}
		}
	}
	for _, c := range s.calls {
		if !known[c.name] && !matchesAny(c.name) {
			seen[c.name] = c.origin
		}
	}
	list := make([]UnknownName, 0, len(seen))
	for name, o := range seen {
		u := UnknownName{Name: name, Origin: o}
		if u.NoEffect, _ = noEffect(name); u.NoEffect == "" {
			u.Nearest = nearest(name, known)
		}
		list = append(list, u)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// knownNames returns every name that sets something.
func knownNames() map[string]bool {
	known := make(map[string]bool)
	for _, sec := range sections() {
		for i := range sec.fields {
			for _, n := range sec.fields[i].settable {
				known[n] = true
			}
		}
	}
	return known
}

// matchesAny reports whether a pattern means some setting.
func matchesAny(pattern string) bool {
	for _, sec := range sections() {
		for i := range sec.fields {
			if sec.fields[i].named(pattern) {
				return true
			}
		}
	}
	return false
}

// Nearest returns the setting, without UCX_, whose name is nearest to a name that no section
// knows; "" if the name or pattern means a setting, if C UCX has a setting of that name that has no
// effect here, or if none is near.
func Nearest(name string) string {
	if matchesAny(name) || reserved[name] {
		return ""
	}
	if why, _ := noEffect(name); why != "" {
		return ""
	}
	return nearest(name, knownNames())
}

// nearest returns the known name with the fewest edits from name, the first in
// order of several. Of a short name half may differ.
func nearest(name string, known map[string]bool) string {
	limit := min(maxDistance, (len(name)+1)/2)
	best, bestDist := "", limit+1
	for k := range known {
		d := distance(name, k, limit)
		if d < bestDist || d == bestDist && d <= limit && k < best {
			best, bestDist = k, d
		}
	}
	return best
}

// distance counts the insertions, removals and replacements that turn a into b;
// more than limit is reported as limit+1. Names of very different length are
// told apart without looking at them.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	prev := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(prev[j]+cost, prev[j+1]+1, row[j]+1)
		}
		prev, row = row, prev
	}
	return min(prev[len(b)], limit+1)
}
