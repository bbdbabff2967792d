//go:build linux

package interop

import (
	"errors"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// setting is the settings of a group of columns.
type setting struct {
	name   string
	both   []string // environment of both sides
	theirs []string // of the other side only
	mode   string   // error handling mode, if not none
}

func (s setting) errorMode() string {
	if s.mode != "" {
		return s.mode
	}
	return "none"
}

var settings = []setting{
	{name: "defaults"},
	{name: "rndv=0", both: []string{"UCX_RNDV_THRESH=0"}},
	{name: "rndv=inf", both: []string{"UCX_RNDV_THRESH=inf"}},
	{name: "address v2", theirs: []string{"UCX_ADDRESS_VERSION=v2"}},
	{name: "both address v2", both: []string{"UCX_ADDRESS_VERSION=v2"}},
	{name: "proto=y", theirs: []string{"UCX_PROTO_ENABLE=y"}},
	{name: "proto=n", theirs: []string{"UCX_PROTO_ENABLE=n"}},
	{name: "error mode peer", mode: "peer"},
}

// group is a setting and the routes to try it on.
type group struct {
	setting
	routes []route
}

// networkGroups returns all settings, the defaults on each device and the others on all devices
// together, or also on each device in the long form.
func networkGroups(where *place) []group {
	var networks []route
	for _, d := range where.devices() {
		networks = append(networks, network(d))
	}
	var list []group
	for i, s := range settings {
		if i > 0 && !needtest.Full {
			networks = networks[len(networks)-1:]
		}
		list = append(list, group{s, networks})
	}
	return list
}

// sharedGroups returns the settings that matter within a machine. What a setting changes in posix
// it changes in sysv, too.
func sharedGroups(theirs program) []group {
	two := []route{posix, posixCMA}
	return []group{
		{settings[0], sharedRoutes},
		{settings[1], two},
		{settings[2], two},
		{theirs.otherEngine(), two},
		{setting{name: "error mode peer", mode: "peer"}, []route{posix, sysv, posixCMA, allTransports}},
	}
}

// The largest size takes half of a column's time and uses the same protocol as the one before it.
var (
	allSizes = []int{0, 1, 8, 200, 1024, 4096, 8192, 16384, 65536, 1 << 20, 16 << 20}
	smaller  = allSizes[:len(allSizes)-1]
	largest  = smaller[len(smaller)-1] // of settings other than the defaults
)

// TestMatrix runs every operation with every peer, setting and route, in both directions; with
// another Go peer, which other suites cover, only the defaults, except in the long form. Shared
// memory has the most columns and is in two parts.
func TestMatrix(t *testing.T) {
	t.Parallel() // the peers mostly sleep
	c := buildC(t)
	ours := buildGo(t)
	for _, theirs := range append([]program{ours}, c...) {
		some, sizes := func(groups []group) []group { return groups }, allSizes
		if theirs.ours && !needtest.Full {
			some, sizes = func(groups []group) []group { return groups[:1] }, smaller
		}
		t.Run(theirs.name+"/tcp", func(t *testing.T) {
			t.Parallel()
			where := newPlace()
			defer where.close()
			runMatrix(t, where, ours, theirs, some(networkGroups(where)), sizes)
			if where.eth == "" {
				t.Run("devices eth and both", func(t *testing.T) { needtest.Right(t, where.why) })
			}
		})
		sharedPart := func(name string, groups []group) {
			t.Run(theirs.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				where := newPlace()
				defer where.close()
				runMatrix(t, where, ours, theirs, groups, sizes)
			})
		}
		shared := some(sharedGroups(theirs))
		sharedPart("shm", shared[:1])
		if others := shared[1:]; len(others) > 0 && !testing.Short() {
			sharedPart("shm settings", others)
		}
	}
}

var fullControl = flag.Bool("fullcontrol", false, "TestControl: all settings and routes, as TestMatrix")

// TestControl runs C UCX against itself: a failure is in the driver, the C peer or C UCX.
func TestControl(t *testing.T) {
	where := newPlace()
	defer where.close()
	for _, c := range buildC(t) {
		t.Run(c.name, func(t *testing.T) {
			if *fullControl {
				runMatrix(t, where, c, c, slices.Concat(networkGroups(where), sharedGroups(c)), allSizes)
				return
			}
			groups := []group{{settings[0], []route{lo, allTransports}}}
			runMatrix(t, where, c, c, groups, []int{0, 8, 16384, 1 << 20})
		})
	}
}

// runMatrix runs the operations and prints the matrix. Except in the long form, each column runs
// half of the combinations of operation, size and direction, and the next column the other half.
func runMatrix(t *testing.T, where *place, ours, theirs program, groups []group, sizes []int) {
	if testing.Short() {
		groups, sizes = groups[:1], []int{8, 16384, 1 << 20}
	}
	m := newMatrix(ours.name + " with " + theirs.name)
	for _, g := range groups {
		sizes := sizes
		if g.name != settings[0].name && !needtest.Full {
			sizes = slices.DeleteFunc(slices.Clone(sizes), func(size int) bool { return size > largest })
		}
		if theirs.ours && g.theirs != nil {
			continue // C differs here
		}
		for _, over := range g.routes {
			t.Run(g.name+"/"+over.name, func(t *testing.T) {
				r := runner{t: t, where: where, ours: ours, theirs: theirs, setting: g.setting, route: over, matrix: m,
					half: sparse}
				r.run(sizes)
			})
		}
	}
	m.print(os.Stdout)
}

// maxFailures ends a column: failures may be hangs, which take time.
const maxFailures = 4

// runner fills one column of a matrix, with one pair of processes until a failure.
type runner struct {
	t            *testing.T
	where        *place
	ours, theirs program
	setting      setting
	route        route
	matrix       *matrix
	operations   []operation // nil for all

	// half skips every other combination of operation, size and direction; the next column skips
	// the others.
	half bool

	pair     *pair
	failures int
}

var only = flag.String("operations", "", "regular expression: only operations whose names match")

func (r *runner) run(sizes []int) {
	wanted, err := regexp.Compile(*only)
	if err != nil {
		r.t.Fatal(err)
	}
	list := operations
	switch {
	case r.operations != nil:
		list = r.operations
	case !r.route.isNetwork():
		list = slices.Concat(operations, sharedOperations)
	}
	first := len(r.matrix.columns)
	for i, op := range list {
		if !wanted.MatchString(op.name) {
			continue
		}
		for k, size := range sizes {
			for d, weSend := range []bool{true, false} {
				if !r.half || everyOther(first, i, k, d) {
					r.one(op, size, weSend)
				}
			}
		}
	}
	r.record(row{operation: "flush and close"}, noSize, r.close())
}

// one runs an operation of one size in one direction.
func (r *runner) one(op operation, size int, weSend bool) {
	at := row{op.name, r.theirs.name + " sends"}
	if weSend {
		at.direction = r.ours.name + " sends"
	}
	if r.failures >= maxFailures {
		r.matrix.set(at, size, r.column(), notRun)
		return
	}
	from, expected := r.ours, unable(inabilities, r.ours, r.theirs, false, r.setting.name, r.route.name, op.name, size)
	if !weSend {
		from, expected = r.theirs, unable(inabilities, r.theirs, r.ours, true, r.setting.name, r.route.name, op.name, size)
	}
	if expected != nil && expected.aborts {
		r.record(at, size, errUnable)
		return
	}
	r.record(at, size, expected.judge(from.name, r.try(op, size, weSend)))
}

// try runs an operation. After a failure the peers' state is unknown, so the next operation gets a
// new pair.
func (r *runner) try(op operation, size int, weSend bool) error {
	if r.pair == nil {
		var err error
		if r.pair, err = newPair(r.where, r.ours, r.theirs, r.setting, r.route); err != nil {
			return err
		}
		if r.ours.ours && r.route.name == allTransports.name {
			lanes, err := r.pair.ours.command("transports", ep)
			if err != nil {
				return err
			}
			r.t.Log("our lanes:", strings.Join(lanes, " "))
		}
	}
	from, to := r.pair.ours, r.pair.theirs
	if !weSend {
		from, to = to, from
	}
	err := op.run(from, to, &r.pair.msgs, size)
	if err == nil || errors.Is(err, errNothingToDo) {
		return err
	}
	err = errors.Join(err, r.pair.abort())
	r.pair = nil
	return err
}

func (r *runner) close() error {
	if r.pair == nil {
		return errNothingToDo
	}
	err := r.pair.close(r.setting.errorMode())
	if err != nil {
		err = errors.Join(err, r.pair.abort())
	}
	return err
}

// record stores the outcome and reports a failure.
func (r *runner) record(at row, size int, err error) {
	switch {
	case err == nil:
		r.matrix.set(at, size, r.column(), ok)
	case errors.Is(err, errNothingToDo):
	case errors.Is(err, errUnable):
		r.matrix.set(at, size, r.column(), unsupported)
	default:
		r.failures++
		r.matrix.fail(r.t, at, size, r.column(), err)
		if r.failures == maxFailures {
			r.t.Errorf("giving up after %d failures", maxFailures)
		}
	}
}

func (r *runner) column() column { return column{r.setting.name, r.route.name} }
