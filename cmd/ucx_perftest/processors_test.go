//go:build linux

package main

import (
	"runtime"
	"testing"
)

// TestNarrow: a test runs with as many processors as threads, or fewer if the user or the machine
// sets fewer. Afterwards the number is as before.
func TestNarrow(t *testing.T) {
	was := runtime.GOMAXPROCS(3)
	defer runtime.GOMAXPROCS(was)
	for _, c := range []struct {
		threads int
		set     string
		want    int
	}{{1, "", 1}, {2, "", 2}, {3, "", 3}, {5, "", 3}, {1, "3", 3}} {
		t.Setenv("GOMAXPROCS", c.set)
		team, seen := newTeam(new(counted), c.threads), make([]int, c.threads)
		if err := team.run(func(id int) error { seen[id] = runtime.GOMAXPROCS(0); return nil }); err != nil {
			t.Fatal(err)
		}
		for id, n := range seen {
			if n != c.want {
				t.Errorf("thread %d of %d, GOMAXPROCS=%q: %d processors, want %d", id, c.threads, c.set, n, c.want)
			}
		}
		if n := runtime.GOMAXPROCS(0); n != 3 {
			t.Errorf("%d processors afterwards, want 3", n)
		}
	}
}
