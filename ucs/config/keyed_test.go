package config

import (
	"slices"
	"strings"
	"testing"
)

// TestParseKeyed checks a value for all keys, values by key, and both together.
func TestParseKeyed(t *testing.T) {
	keys := []string{"intra", "inter"}
	for _, tc := range []struct{ in, want string }{
		{"8k", "8k 8k"},
		{"intra:8k,inter:64k", "8k 64k"},
		{"inter:64k", "- 64k"},
		{"8k,intra:64k", "64k 8k"},
		{"intra:64k,8k", "64k 8k"},
		{" intra:64k , 8k", "64k 8k"},
		{"8k,64k", "64k 64k"},
		{"intra:1k,intra:2k,", "2k -"},
	} {
		got := []string{"-", "-"}
		err := ParseKeyed(tc.in, keys, func(k int, value string) error {
			got[k] = value
			return nil
		})
		if err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("%q: %q, %v, want %q", tc.in, got, err, tc.want)
		}
	}
	for in, want := range map[string]string{"": "invalid syntax", "host:8k": `"host" is not one of intra, inter`, "intra:": `nothing after "intra:"`} {
		err := ParseKeyed(in, keys, func(int, string) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	// The error of a value names its key only if the value has one.
	for in, want := range map[string]string{"intra:x": "intra: invalid syntax", "x": "invalid syntax", "inter:1k,x": `"x": invalid syntax`} {
		err := ParseKeyed(in, keys, func(_ int, value string) error {
			if value == "x" {
				return errSyntax
			}
			return nil
		})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

// TestFormatKeyed checks that the printed form is parsed as the same values.
func TestFormatKeyed(t *testing.T) {
	for want, values := range map[string][]string{"intra:8k,inter:8k": {"8k", "8k"}, "intra:8k,inter:1k": {"8k", "1k"}} {
		got := FormatKeyed([]string{"intra", "inter"}, values)
		back := make([]string, 2)
		ParseKeyed(got, []string{"intra", "inter"}, func(k int, value string) error {
			back[k] = value
			return nil
		})
		if got != want || !slices.Equal(back, values) {
			t.Errorf("%q: printed %q, read back %q", values, got, back)
		}
	}
}
