package repocheck

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/repocheck/filegraph"
)

// A package whose files call each other in circles can only be read as a whole.
// knots.txt says for each package that is, or was, worse than most how large its
// knot may be and how many pairs of files may use one another; what it does not
// name is held to the limits of small packages. The limits only fall: one that is
// more than what is there is an error too, or the gain would be lost again
// without a word.
//
//	go run ./internal/repocheck/graph PACKAGE                   what ties a knot
//	go test ./internal/repocheck -run TestKnots -lower          writes what is there, where it is less
const (
	knotsFile  = "testdata/knots.txt"
	smallKnot  = 5
	smallPairs = 5
	mostKnot   = 5 // what a limit may be
	mostPairs  = 12
)

var lower = flag.Bool("lower", false, "lower the limits of "+knotsFile+" to what is there")

// knotLimit is a line of the file.
type knotLimit struct {
	dir         string
	knot, pairs int
}

func (l knotLimit) String() string { return fmt.Sprintf("%-32s %5d %5d", l.dir, l.knot, l.pairs) }

// readKnots returns the comment at the head of the file and its limits.
func readKnots(t *testing.T) (head string, limits []knotLimit) {
	t.Helper()
	text, err := os.ReadFile(knotsFile)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			head += line
			continue
		}
		var l knotLimit
		if n, err := fmt.Sscan(line, &l.dir, &l.knot, &l.pairs); n != 3 || seen[l.dir] {
			t.Fatalf("%s: %q: %v", knotsFile, line, err)
		}
		if l.knot > mostKnot || l.pairs > mostPairs {
			t.Fatalf("%s: %s: no limit may be more than %d and %d", knotsFile, l.dir, mostKnot, mostPairs)
		}
		seen[l.dir] = true
		limits = append(limits, l)
	}
	return head, limits
}

// checkKnot says what is wrong with a package, and what its limit is to be.
func checkKnot(l knotLimit, knot, pairs int) (wrong string, lowered knotLimit) {
	switch {
	case knot > l.knot || pairs > l.pairs:
		wrong = fmt.Sprintf("a knot of %d files and %d mutual pairs; the limits are %d and %d", knot, pairs, l.knot, l.pairs)
	case knot < l.knot || pairs < l.pairs:
		wrong = fmt.Sprintf("a knot of %d files and %d mutual pairs: lower its limits of %d and %d, with -lower", knot, pairs, l.knot, l.pairs)
	}
	l.knot, l.pairs = min(l.knot, knot), min(l.pairs, pairs)
	return wrong, l
}

func TestKnots(t *testing.T) {
	sources(t) // skips where there are none, and tells go test what the result depends on
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("no go command here: %v", err)
	}
	graphs, err := filegraph.Load("../..", "./...")
	if err != nil {
		t.Fatal(err)
	}
	measured := make(map[string]*filegraph.Graph)
	for _, g := range graphs {
		measured[strings.TrimPrefix(g.Path, module+"/")] = g
	}
	if len(measured["ucp"].Linked()) < 40 {
		t.Fatalf("%v: not what a package of that size looks like", measured["ucp"])
	}
	// The files of package ucp are one engine: a rule about calls between them rewards
	// cutting them into crumbs. What keeps its subjects apart is packages, ucp/internal/….
	delete(measured, "ucp")
	head, limits := readKnots(t)
	out := bytes.NewBufferString(head)
	for _, l := range limits {
		g := measured[l.dir]
		delete(measured, l.dir)
		if g == nil {
			if !*lower {
				t.Errorf("%s: there is no such package; take it out of %s", l.dir, knotsFile)
			}
			continue
		}
		knot, pairs := len(g.Knot()), len(g.Mutual())
		wrong, lowered := checkKnot(l, knot, pairs)
		if wrong != "" && (!*lower || knot > l.knot || pairs > l.pairs) {
			t.Errorf("%s: %s\nknot: %v\nmutual: %v", l.dir, wrong, g.Knot(), g.Mutual())
		}
		fmt.Fprintln(out, lowered)
	}
	for dir, g := range measured {
		if knot, pairs := len(g.Knot()), len(g.Mutual()); knot > smallKnot || pairs > smallPairs {
			t.Errorf("%s: a knot of %d files and %d mutual pairs; the limits are %d and %d\nknot: %v",
				dir, knot, pairs, smallKnot, smallPairs, g.Knot())
		}
	}
	if *lower {
		if err := os.WriteFile(knotsFile, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckKnot(t *testing.T) {
	limit := knotLimit{knot: 5, pairs: 3}
	for _, tc := range []struct {
		knot, pairs int
		want        string // part of it
		lowered     knotLimit
	}{
		{5, 3, "", limit},
		{6, 3, "limits are 5 and 3", limit},
		{5, 4, "limits are 5 and 3", limit},
		{4, 4, "limits are 5 and 3", knotLimit{knot: 4, pairs: 3}},
		{4, 3, "lower its limits", knotLimit{knot: 4, pairs: 3}},
		{5, 0, "lower its limits", knotLimit{knot: 5}},
	} {
		got, lowered := checkKnot(limit, tc.knot, tc.pairs)
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) || lowered != tc.lowered {
			t.Errorf("%d, %d: %q, %v; want %q, %v", tc.knot, tc.pairs, got, lowered, tc.want, tc.lowered)
		}
	}
}
