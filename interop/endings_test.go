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

// How endpoints end, beside C: an operation is brought to some phase, then one of the two
// sides ends what it has, and both tell what they see. The same script runs with C at both
// ends, with C at either end, and with C at neither; testdata/endings.txt has the outcomes of
// all, and where ours differ from those of C with C, the reason.

var (
	updateEndings = flag.Bool("update", false, "TestEndings: write testdata/endings.txt anew; needs FULL_TESTS")
	endingRounds  = flag.Int("ending-rounds", 3, "TestEndings: with -update, how often each cell is run")
	endingWaits   = flag.Bool("ending-waits", false, "TestEndings: with -update, only cells in which something waits for ever or differs from run to run, and with patience")
	endingMerge   = flag.Bool("ending-merge", false, "TestEndings: with -update, what is recorded stays, and what comes out besides is added")
	endingCells   = flag.String("endings", "", "TestEndings: regular expression: only cells that match, such as ^tcp tag2M")
)

// link is how the two sides of a cell are connected.
type link struct {
	name string
	over route
	mode string
	dial bool // by socket address, the side of the operation as the client

	// Which cells differ from those of other links.
	operations *regexp.Regexp
}

var (
	anyEnding   = regexp.MustCompile(``)
	largeEnding = regexp.MustCompile(`M$|^flush$`) // what goes without copies, and other ways
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

// tcpAlone lets neither side choose.
var tcpAlone = route{name: "tcp", tls: "tcp", both: true, devices: "lo"}

// endingCell is what happens in one script.
type endingCell struct {
	op    *endingOp
	phase string
	how   string // flush, force, worker, shutdown, cancel, killed
	who   string // who ends: the side of the operation, "self", or its "peer"
}

func (c endingCell) String() string {
	return strings.Join([]string{c.op.name, c.phase, c.how, c.who}, " ")
}

// cells are all that mean something over a link.
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
						how == "force" && l.mode == "none", // C does not do it
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

// A pairing is the programs at the two sides.
type pairing struct {
	name string // GG, CC, GC, CG: that of the operation first
	a, b program
}

func pairings(ours, theirs program) []pairing {
	return []pairing{{"CC", theirs, theirs}, {"GC", ours, theirs}, {"CG", theirs, ours}}
}

// works says whether programs connect by a link.
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

// TestEndings runs the cells of the table with this machine's C, and compares.
func TestEndings(t *testing.T) {
	t.Parallel() // the peers sleep much
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
					if *updateEndings { // what there is, as all takes long
						if err := table.write(endingsFile); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	})
}

// endingColumn names the column of the text: GG, or the pairing and the release.
func endingColumn(p pairing) string {
	for _, q := range []program{p.a, p.b} {
		if !q.ours {
			release, _, _ := strings.Cut(strings.TrimPrefix(q.name, "C "), " ")
			return p.name + " " + release
		}
	}
	return p.name
}

// runEndings runs the cells of a link with two programs.
func runEndings(t *testing.T, table *endings, l link, p pairing, wanted *regexp.Regexp) {
	where := newPlace()
	defer where.close()
	column := endingColumn(p)
	stage := &stage{where: where, link: l, pairing: p}
	defer stage.leave()
	var killed [][]endingCell // those that one death serves
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
		// C aborts in the midst of a get of one that dies: no other operation is to suffer.
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

// compareEndings plays cells until they have come out as recorded, and returns how many have
// not. What has come out otherwise may be one more outcome of a race: once is not enough. C with
// C is told of, but is no failure.
func compareEndings(t *testing.T, table *endings, l link, g []endingCell, column string,
	play func(expected []outcomeSet) bool, sets []outcomeSet) (failures int) {
	expected := make([]outcomeSet, len(g))
	for i, c := range g {
		expected[i] = table.at(l.name, c.String(), column)
	}
	if !slices.ContainsFunc(expected, func(s outcomeSet) bool { return !s.empty() }) {
		return 0 // no such release when the text was made
	}
	for try := range endingTries {
		clear(sets)
		if !play(expected) {
			return 0 // it has been said
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

// endingTries is how often a cell may be played.
const endingTries = 3

// inShortRun chooses the cells that are run unless all are wanted: of each operation, phase
// and end some, over each link others; none of C with C.
func inShortRun(l link, p pairing, k int) bool {
	i := slices.IndexFunc(links, func(other link) bool { return other.name == l.name })
	return p.name != "CC" && (k+i+len(endingColumn(p)))%shortRun == 0
}

// shortRun: of as many cells one.
const shortRun = 32

// crash is the end of a process that nobody has asked for.
type crash struct {
	side string // A, that of the operation, or B
	ours bool
	err  error
}

func (c *crash) Error() string { return fmt.Sprintf("%s has ended: %v", c.side, c.err) }
