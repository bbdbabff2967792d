package config

import "strings"

// ParseEnum returns the place of s among names, ignoring case: what ParseConfig
// of a choice between names needs.
func ParseEnum(s string, names []string) (int, error) {
	for i, n := range names {
		if strings.EqualFold(s, n) {
			return i, nil
		}
	}
	return 0, errSyntax
}

// EnumSyntax describes a choice between names, "[v1|v2]".
func EnumSyntax(names []string) string { return "[" + strings.Join(names, "|") + "]" }
