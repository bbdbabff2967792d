package config

import "sort"

// UnknownName is a name that was set but that no section knows, or an item of a list of transports
// that names no transport.
type UnknownName struct {
	Name    string // the name without UCX_
	Origin  Origin
	Nearest string // the nearest known name, without UCX_; "" if none is near

	// NoEffect is the reason why the setting has no effect, if it is a setting of C UCX that this
	// library does not have. It is "" for a name that C UCX does not know either, which most likely
	// is misspelled.
	NoEffect string
}

// maxDistance is the largest number of edits at which a known name is suggested, as in C UCX.
const maxDistance = 3

// reserved holds names that have a meaning but are not settings.
var reserved = map[string]bool{"CONFIG_DIR": true}

// Unknown returns the names that were set in the environment, in a file or by a call and that no
// section has, ordered by name. Only packages that are linked into the program have sections, so
// settings of other transports are unknown.
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

// knownNames returns all names of settings of the registered sections, without UCX_.
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

// matchesAny reports whether a name or pattern selects at least one setting.
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

// Nearest returns the name of the setting, without UCX_, that is nearest to a name that no section
// knows. It returns "" if the name, or pattern, selects a setting, if C UCX has a setting of that
// name that has no effect in this library, or if no name is near.
func Nearest(name string) string {
	if matchesAny(name) || reserved[name] {
		return ""
	}
	if why, _ := noEffect(name); why != "" {
		return ""
	}
	return nearest(name, knownNames())
}

// nearest returns the known name with the fewest edits from name, the alphabetically first of
// several, "" if none is near.
func nearest(name string, known map[string]bool) string { return nearestBy(name, known, distance) }

// nearestBy is nearest for edits that the function dist counts. dist returns more than limit if the
// edits exceed limit, which is maxDistance edits or half the length of name, whichever is less.
func nearestBy(name string, known map[string]bool, dist func(a, b string, limit int) int) string {
	limit := min(maxDistance, (len(name)+1)/2)
	best, bestDist := "", limit+1
	for k := range known {
		d := dist(name, k, limit)
		if d < bestDist || d == bestDist && d <= limit && k < best {
			best, bestDist = k, d
		}
	}
	return best
}

// distance counts the insertions, removals and replacements that turn a into b, or returns limit+1
// if they exceed limit. Names whose lengths differ by more than limit are not compared.
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
