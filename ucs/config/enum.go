package config

import "strings"

// ParseEnum returns the index of s in names, ignoring case, or an error if s is not in names. It
// serves the ParseConfig methods of types whose values are names.
func ParseEnum(s string, names []string) (int, error) {
	for i, n := range names {
		if strings.EqualFold(s, n) {
			return i, nil
		}
	}
	return 0, errSyntax
}

// EnumSyntax returns the syntax of a value that is one of some names, for example "[v1|v2]".
func EnumSyntax(names []string) string { return "[" + strings.Join(names, "|") + "]" }
