//go:build linux

package interop

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
)

// How endpoints end, compared with C: an operation is brought to a phase, then one of the two sides
// closes or exits, and both report what they observe. The same script runs with C on both sides, on
// either side, and on neither. testdata/endings.txt has all outcomes and, where those with Go
// differ from C with C, the reason.

var (
	updateEndings = flag.Bool("update", false, "TestEndings: write testdata/endings.txt anew; needs FULL_TESTS")
	endingRounds  = flag.Int("ending-rounds", 3, "TestEndings: with -update, how often each cell is run")
	endingWaits   = flag.Bool("ending-waits", false, "TestEndings: with -update, only cells in which something waits for ever or differs from run to run, and with long timeouts")
	endingMerge   = flag.Bool("ending-merge", false, "TestEndings: with -update, what is recorded stays, and what comes out besides is added")
	endingCells   = flag.String("endings", "", "TestEndings: regular expression: only cells that match, such as ^tcp tag2M")
)

// link is how the two sides of a cell are connected.
type link struct {
	name string
	over route
	mode string
	dial bool // by socket address, with the operation's side as the client

	// The operations of this link, which may differ from those of others.
	operations *regexp.Regexp
}

var (
	anyEnding   = regexp.MustCompile(``)
	largeEnding = regexp.MustCompile(`M$|^flush$`) // those without copies, which differ over cma
	someEnding  = regexp.MustCompile(`^(tag8|tag2M|sync8|am2M|put1M|fetch|tagrecv)$`)
)

var links = []link{
	{"tcp", tcpAlone, "peer", false, anyEnding},
	{"posix", posix, "peer", false, anyEnding},
	{"sysv", sysv, "peer", false, someEnding},
	{"cma", posixCMA, "peer", false, largeEnding},
	{"tcp-none", tcpAlone, "none", false, someEnding},
	{"posix-none", posix, "none", false, someEnding},
	{"tcp@", dialingRoutes[0], "peer", true, anyEnding},
	{"posix@", dialingRoutes[1], "peer", true, anyEnding},
	{"cma@", dialingRoutes[3], "peer", true, largeEnding},
}

// tcpAlone restricts both sides to tcp.
var tcpAlone = route{name: "tcp", tls: "tcp", both: true, devices: "lo"}

// endingCell is the script of one cell.
type endingCell struct {
	op    *endingOp
	phase string
	how   string // flush, force, worker, shutdown, cancel, killed
	who   string // which side ends: that of the operation, "self", or its "peer"
}

func (c endingCell) String() string {
	return strings.Join([]string{c.op.name, c.phase, c.how, c.who}, " ")
}

// cells returns all cells that make sense over a link.
func (l link) cells() (list []endingCell) {
	for k := range endingOps {
		op := &endingOps[k]
		if !l.operations.MatchString(op.name) {
			continue
		}
		for _, phase := range op.phases {
			for _, how := range []string{"flush", "force", "worker", "shutdown", "cancel", "killed"} {
				for _, who := range []string{"self", "peer"} {
					switch {
					case how == "cancel" && (who == "peer" || phase == "done" || !op.cancels),
						how == "force" && l.mode == "none", // C does not support it
						how == "killed" && (l.mode == "none" || phase == "done" || !op.outlives):
						continue
					}
					list = append(list, endingCell{op, phase, how, who})
				}
			}
		}
	}
	return list
}

// A pairing is the programs on the two sides.
type pairing struct {
	name string // GG, CC, GC, CG: the operation's side first
	a, b program
}

func pairings(ours, theirs program) []pairing {
	return []pairing{{"CC", theirs, theirs}, {"GC", ours, theirs}, {"CG", theirs, ours}}
}

// works reports whether the programs can connect by a link.
func (l link) works(p pairing) bool {
	if !l.dial {
		return true
	}
	for i, q := range []program{p.a, p.b} {
		if !q.ours && !q.dials(l.mode, i == 0, l.over) {
			return false
		}
	}
	return true
}

// TestEndings runs the cells of the table with this machine's C UCX, and compares the outcomes.
func TestEndings(t *testing.T) {
	t.Parallel() // the peers mostly sleep
	c := buildC(t)
	ours := buildGo(t)
	if *updateEndings && !needtest.Full {
		t.Fatal("-update needs FULL_TESTS: the text has all cells")
	}
	wanted, err := regexp.Compile(*endingCells)
	if err != nil {
		t.Fatal(err)
	}
	table, err := readEndings(endingsFile)
	if err != nil {
		t.Fatal(err)
	}
	all := []pairing{{"GG", ours, ours}}
	for _, theirs := range c {
		all = append(all, pairings(ours, theirs)...)
	}
	t.Run("run", func(t *testing.T) {
		for _, l := range links {
			for _, p := range all {
				if !l.works(p) {
					continue
				}
				column := endingColumn(p)
				t.Run(l.name+"/"+column, func(t *testing.T) {
					t.Parallel()
					runEndings(t, table, l, p, wanted)
					if *updateEndings { // saved after each column, as all take long
						if err := table.write(endingsFile); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	})
}

// endingColumn returns the column of the text: GG, or the pairing and the release.
func endingColumn(p pairing) string {
	for _, q := range []program{p.a, p.b} {
		if !q.ours {
			release, _, _ := strings.Cut(strings.TrimPrefix(q.name, "C "), " ")
			return p.name + " " + release
		}
	}
	return p.name
}

// runEndings runs the cells of a link between two programs.
func runEndings(t *testing.T, table *endings, l link, p pairing, wanted *regexp.Regexp) {
	where := newPlace()
	defer where.close()
	column := endingColumn(p)
	stage := &stage{where: where, link: l, pairing: p}
	defer stage.leave()
	var killed [][]endingCell // cells that share one killed process
	var groups [][]endingCell
	for k, c := range l.cells() {
		key := l.name + " " + c.String()
		if !wanted.MatchString(key) || !needtest.Full && !inShortRun(l, p, k) {
			continue
		}
		if c.how != "killed" {
			groups = append(groups, []endingCell{c})
			continue
		}
		// C aborts during a get from a process that dies, which must not affect other operations.
		i := slices.IndexFunc(killed, func(g []endingCell) bool {
			return g[0].phase == c.phase && g[0].who == c.who && g[0].op.name != "get1M" && c.op.name != "get1M"
		})
		if i < 0 {
			killed = append(killed, nil)
			i = len(killed) - 1
		}
		killed[i] = append(killed[i], c)
	}
	if *updateEndings && *endingWaits {
		settled := func(g []endingCell) bool {
			return !slices.ContainsFunc(g, func(c endingCell) bool { return table.unsure(l.name, c.String(), column) })
		}
		groups, killed = slices.DeleteFunc(groups, settled), slices.DeleteFunc(killed, settled)
	}
	failures, count, started := 0, 0, time.Now()
	for _, g := range append(groups, killed...) {
		sets := make([]outcomeSet, len(g))
		play := func(expected []outcomeSet) bool {
			count += len(g)
			seen, err := stage.play(g, expected)
			if err != nil {
				stage.give()
				if crashed := new(crash); !errors.As(err, &crashed) || crashed.ours {
					t.Errorf("%s %v, %s: %v", l.name, g[0], column, err)
					failures++
					return false
				}
			}
			for i := range g {
				sets[i].add(seen[i])
			}
			return true
		}
		switch {
		case *updateEndings:
			for range *endingRounds {
				expected := slices.Clone(sets)
				for i, c := range g {
					if *endingMerge {
						expected[i] = table.at(l.name, c.String(), column)
					}
				}
				play(expected)
			}
			for i, c := range g {
				if *endingMerge {
					merged := table.at(l.name, c.String(), column).clone()
					merged.with(sets[i])
					sets[i] = merged
				}
				if *endingWaits && strings.HasPrefix(column, "CC") {
					sets[i].with(table.at(l.name, c.String(), column))
				}
				table.set(l.name, c.String(), column, sets[i])
			}
		default:
			failures += compareEndings(t, table, l, g, column, play, sets)
		}
		if failures >= 2*maxFailures {
			t.Fatalf("giving up after %d failures", failures)
		}
	}
	t.Logf("%d cells in %v", count, time.Since(started).Round(time.Millisecond))
}

// compareEndings runs cells until the outcomes are as recorded, and returns how many are not. A
// different outcome may be another result of a race, so each is tried several times. Differences of
// C with C are logged and are no failures.
func compareEndings(t *testing.T, table *endings, l link, g []endingCell, column string,
	play func(expected []outcomeSet) bool, sets []outcomeSet) (failures int) {
	expected := make([]outcomeSet, len(g))
	for i, c := range g {
		expected[i] = table.at(l.name, c.String(), column)
	}
	if !slices.ContainsFunc(expected, func(s outcomeSet) bool { return !s.empty() }) {
		return 0 // the release is not in the table
	}
	for try := range endingTries {
		clear(sets)
		if !play(expected) {
			return 0 // already reported
		}
		failures = 0
		for i, c := range g {
			err := table.compare(l.name, c.String(), column, sets[i])
			switch {
			case err == nil:
			case try < endingTries-1:
				t.Logf("try %d: %v", try, err)
				failures++
			case strings.HasPrefix(column, "CC"):
				t.Logf("C does otherwise: %v", err)
			default:
				t.Error(err)
				failures++
			}
		}
		if failures == 0 {
			break
		}
	}
	return failures
}

// endingTries is how often a cell is run at most.
const endingTries = 3

// inShortRun selects the cells of the short form: some of each operation, phase and end, different
// ones for each link, and none of C with C.
func inShortRun(l link, p pairing, k int) bool {
	i := slices.IndexFunc(links, func(other link) bool { return other.name == l.name })
	return p.name != "CC" && (k+i+len(endingColumn(p)))%shortRun == 0
}

// shortRun: one of this many cells is run.
const shortRun = 32

// crash is the unexpected exit of a process.
type crash struct {
	side string // A, the operation's side, or B
	ours bool
	err  error
}

func (c *crash) Error() string { return fmt.Sprintf("%s has ended: %v", c.side, c.err) }
