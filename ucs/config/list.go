package config

import (
	"errors"
	"strconv"
	"strings"
)

// List selects names: a comma-separated list of allowed names, a list of excluded names after ^, or
// "all" (UCS_CONFIG_TYPE_ALLOW_LIST). An item may hold a range of numbers in brackets: "eth[0-3]"
// stands for eth0 to eth3. The zero value allows nothing.
type List struct {
	Mode  ListMode
	Items []string // the items as written, without the ^
}

// ListMode says how the items of a List are interpreted.
type ListMode uint8

// Modes of a List (ucs_config_allow_list_mode_t).
const (
	ListAllow  ListMode = iota // selects the items and nothing else
	ListAll                    // selects everything
	ListNegate                 // selects everything but the items
)

// ParseConfig implements Value.
func (l *List) ParseConfig(s string) error {
	mode := ListAllow
	rest, negate := strings.CutPrefix(s, "^")
	if negate {
		mode = ListNegate
	}
	items, err := splitItems(rest)
	if err != nil {
		return err
	}
	for _, it := range items {
		// C UCX treats this ^ as part of the name, which is never the intention.
		if it[0] == '^' {
			return errors.New("^ must precede the whole list")
		}
	}
	if len(items) > 0 && items[0] == "all" {
		if len(items) > 1 {
			return errors.New(`"all" must be the only item`)
		}
		// As in C UCX, "^all" means all too.
		*l = List{Mode: ListAll}
		return nil
	}
	*l = List{Mode: mode, Items: items}
	return nil
}

// String implements Value.
func (l List) String() string {
	switch l.Mode {
	case ListAll:
		return "all"
	case ListNegate:
		return "^" + strings.Join(l.Items, ",")
	}
	return strings.Join(l.Items, ",")
}

// ConfigSyntax implements Syntaxer.
func (List) ConfigSyntax() string {
	return "comma-separated list (prepend '^' for negation, " +
		`use format "prefix[start-end]suffix" for ranges, ` +
		`or set to "all" for including all items) of: string`
}

// Match reports whether the list selects name.
func (l List) Match(name string) bool {
	switch l.Mode {
	case ListAll:
		return true
	case ListNegate:
		return !l.Mentions(name)
	}
	return l.Mentions(name)
}

// Mentions reports whether one of the items matches name, whatever the mode of the list.
func (l List) Mentions(name string) bool {
	for _, it := range l.Items {
		if itemMatches(it, name) {
			return true
		}
	}
	return false
}

// itemMatches reports whether an item of a List matches name. It does not expand ranges, so a huge
// range costs nothing. An item that is not a valid range matches only itself.
func itemMatches(item, name string) bool {
	if item == name {
		return true
	}
	prefix, first, last, suffix, ok := parseItemRange(item)
	if !ok || len(name) <= len(prefix)+len(suffix) ||
		!strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, suffix) {
		return false
	}
	digits := name[len(prefix) : len(name)-len(suffix)]
	if digits[0] == '0' && digits != "0" {
		return false // a range matches numbers without leading zeros
	}
	n, ok := parseDigits(digits)
	return ok && first <= n && n <= last
}

// parseItemRange splits "prefix[first-last]suffix".
func parseItemRange(item string) (prefix string, first, last uint64, suffix string, ok bool) {
	prefix, rest, ok := strings.Cut(item, "[")
	if !ok {
		return
	}
	span, suffix, ok := strings.Cut(rest, "]")
	if !ok || strings.ContainsAny(prefix+suffix, "[]") {
		return "", 0, 0, "", false
	}
	a, b, _ := strings.Cut(span, "-")
	first, okA := parseDigits(a)
	last, okB := parseDigits(b)
	return prefix, first, last, suffix, okA && okB && first <= last
}

// parseDigits reads a number of decimal digits and nothing else.
func parseDigits(s string) (uint64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

// Range is a span of numbers, "first-last", or a single number
// (UCS_CONFIG_TYPE_RANGE_SPEC).
type Range struct {
	First, Last uint32
}

// ParseConfig implements Value.
func (r *Range) ParseConfig(s string) error {
	a, b, found := strings.Cut(s, "-")
	if !found {
		b = a
	}
	first, err := strconv.ParseUint(strings.TrimSpace(a), 10, 32)
	if err != nil {
		return numError(err)
	}
	last, err := strconv.ParseUint(strings.TrimSpace(b), 10, 32)
	if err != nil {
		return numError(err)
	}
	if first > last {
		return errRange
	}
	*r = Range{uint32(first), uint32(last)}
	return nil
}

// String implements Value.
func (r Range) String() string {
	s := strconv.FormatUint(uint64(r.First), 10)
	if r.Last != r.First {
		s += "-" + strconv.FormatUint(uint64(r.Last), 10)
	}
	return s
}

// ConfigSyntax implements Syntaxer.
func (Range) ConfigSyntax() string { return "numbers range: <number>-<number>" }
