package main

import (
	"maps"
	"slices"
	"testing"
)

func TestReached(t *testing.T) {
	got := reached("mode: count\nm/a.go:1.2,3.4 5 1\nm/a.go:5.1,6.2 1 0\nm/b.go:1.1,2.2 3 7\nm/b.go:1.1,2.2 3 0\n")
	want := blocks{{"m/a.go:1.2,3.4", 1}: true, {"m/b.go:1.1,2.2", 3}: true}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestChoose(t *testing.T) {
	set := func(names ...string) blocks {
		b := make(blocks)
		for _, n := range names {
			b[block{n, 1}] = true
		}
		return b
	}
	list := []candidate{
		{"known", 1, set("a")},
		{"large", 9, set("a", "b", "c")},
		{"small", 3, set("b", "c")},
		{"twin", 3, set("b", "c")},
		{"rare", 5, set("d")},
		{"nothing", 1, set()},
	}
	for _, tc := range []struct {
		have blocks
		most int
		want []string
	}{
		{set("a"), 9, []string{"small", "rare"}},
		{set(), 9, []string{"large", "rare"}},
		{set("a"), 1, []string{"small"}},
		{set("a"), -1, nil},
		{set("a", "b", "c", "d"), 9, nil},
	} {
		var got []string
		for _, c := range choose(list, tc.have, tc.most) {
			got = append(got, c.name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("beside %v at most %d: %v, want %v", tc.have, tc.most, got, tc.want)
		}
	}
}

func TestNames(t *testing.T) {
	if n, err := names(t.TempDir() + "/missing"); n != nil || err != nil {
		t.Errorf("%v, %v", n, err)
	}
}
