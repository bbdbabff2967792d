package config

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestListParse(t *testing.T) {
	run(t, []check[List]{
		{"all", List{Mode: ListAll}, "all"},
		{"^all", List{Mode: ListAll}, "all"},
		{"a,b", List{Items: []string{"a", "b"}}, "a,b"},
		{"^a,,b", List{Mode: ListNegate, Items: []string{"a", "b"}}, "^a,b"},
		{"eth[0-3]", List{Items: []string{"eth[0-3]"}}, "eth[0-3]"}, // C prints it expanded
		{"a,all", List{Items: []string{"a", "all"}}, "a,all"},
		{"", List{}, ""},
	}, "all,b", "^all,b", "a,^b", ",^", "^^a")
}

func TestListMatch(t *testing.T) {
	for _, tc := range []struct {
		list    string
		yes, no []string
	}{
		{"all", []string{"a", ""}, nil},
		{"", nil, []string{"a", ""}},
		{"a,b", []string{"a", "b"}, []string{"c", "ab", "A", ""}},
		{"^a,b", []string{"c", "ab"}, []string{"a", "b"}},
		{"eth[0-3]", []string{"eth0", "eth3", "eth[0-3]"}, []string{"eth4", "eth", "eth00", "eth03", "eth1x", "eth0-3", "eth+1"}},
		{"p[9-11]s", []string{"p9s", "p10s", "p11s"}, []string{"p8s", "p12s", "ps", "p9"}},
		{"^eth[0-3]", []string{"eth4"}, []string{"eth0"}},
		{"[0-18446744073709551615]", []string{"0", "18446744073709551615"}, []string{"18446744073709551616", ""}},
		// Malformed ranges are taken literally.
		{"e[3-0],e[a-b],e[1-],e[1],e[1-2", []string{"e[3-0]", "e[a-b]", "e[1-]", "e[1]", "e[1-2"}, []string{"e1", "e3", "ea"}},
		{"a[0-1]b[0-1]", []string{"a[0-1]b[0-1]"}, []string{"a0b0"}},
		{"aa[1-2]a", []string{"aa1a"}, []string{"aa", "aaa"}},
	} {
		var l List
		if err := l.ParseConfig(tc.list); err != nil {
			t.Errorf("%q: %v", tc.list, err)
			continue
		}
		for _, n := range tc.yes {
			if !l.Match(n) {
				t.Errorf("%q does not match %q", tc.list, n)
			}
		}
		for _, n := range tc.no {
			if l.Match(n) {
				t.Errorf("%q matches %q", tc.list, n)
			}
		}
	}
}

// TestListModel compares matching with a list in which all ranges are written out.
func TestListModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var written []string
		var text string
		for i := range rapid.IntRange(1, 4).Draw(t, "items") {
			prefix := rapid.StringMatching(`[ab]{0,2}`).Draw(t, "prefix")
			suffix := rapid.StringMatching(`[a0]{0,2}`).Draw(t, "suffix")
			first := rapid.IntRange(0, 12).Draw(t, "first")
			last := rapid.IntRange(first, first+5).Draw(t, "last")
			for n := first; n <= last; n++ {
				written = append(written, fmt.Sprintf("%s%d%s", prefix, n, suffix))
			}
			if i > 0 {
				text += ","
			}
			text += fmt.Sprintf("%s[%d-%d]%s", prefix, first, last, suffix)
		}
		var l, not List
		if err := l.ParseConfig(text); err != nil {
			t.Fatal(err)
		}
		if err := not.ParseConfig("^" + text); err != nil {
			t.Fatal(err)
		}
		name := rapid.OneOf(
			rapid.SampledFrom(written),
			rapid.StringMatching(`[ab]{0,2}[0-9]{1,3}[a0]{0,2}`),
		).Draw(t, "name")
		if got, want := l.Match(name), slices.Contains(written, name); got != want {
			t.Fatalf("%q matches %q: %v, want %v", text, name, got, want)
		}
		if l.Match(name) == not.Match(name) {
			t.Fatalf("%q and its negation agree on %q", text, name)
		}
	})
}

func TestMatchDevice(t *testing.T) {
	for _, tc := range []struct {
		list, device string
		want         bool
	}{
		{"all", "mlx5_0:1", true},
		{"mlx5_0:1", "mlx5_0:1", true},
		{"mlx5_0:1", "mlx5_0:2", false},
		{"mlx5_0", "mlx5_0:2", true},
		{"mlx5_[0-1]", "mlx5_1:2", true},
		{"mlx5_0:[1-2]", "mlx5_0:2", true},
		{"mlx5", "mlx5_0:2", false},
		{"^mlx5_0", "mlx5_0:2", false},
		{"^mlx5_0:1", "mlx5_0:2", true},
		{"eth0", "eth0", true},
		{"eth0:1", "eth0", false},
		{"", "eth0", false},
	} {
		var l List
		if err := l.ParseConfig(tc.list); err != nil {
			t.Fatal(err)
		}
		if got := l.MatchDevice(tc.device); got != tc.want {
			t.Errorf("%q selects %q: %v", tc.list, tc.device, got)
		}
	}
}

func TestMissingDevices(t *testing.T) {
	here := []string{"eth0", "lo", "mlx5_0:1"}
	for _, tc := range []struct {
		list string
		want []string
	}{
		{"all", nil},
		{"^eth7", nil},
		{"eth0,mlx5_0,eth[0-9]", nil},
		{"eth1,lo,mlx5_0:2", []string{"eth1", "mlx5_0:2"}},
	} {
		var l List
		if err := l.ParseConfig(tc.list); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, l.MissingDevices(here)); diff != "" {
			t.Errorf("%q: %s", tc.list, diff)
		}
	}
}
