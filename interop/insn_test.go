//go:build linux && amd64

package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/insn"
	"github.com/ucx-go/ucx/internal/needtest"
)

var (
	insnRows  = flag.String("insn", "", "TestInstructions: regular expression, only rows whose names match; empty skips it")
	insnFuncs = flag.Bool("funcs", false, "TestInstructions: print the instructions by function")
)

// insnRow is one operation whose instructions are counted: what counted and C's program of the same
// shape (testdata/counted) are started with.
type insnRow struct {
	name      string
	operation string
	size      int
	tls       string
	flags     []string // of the programs
	ours      bool     // C's program has no such operation, or cannot have the device
}

// The operations of each transport, and their sizes.
var (
	insnOperations = []struct{ name, operation string }{
		{"tag", "tag"}, {"tag sync", "tagsync"}, {"am", "am"}, {"am header", "amhdr"}, {"stream", "stream"},
		{"put", "put"}, {"get", "get"}, {"probe", "probe"},
	}
	insnSizes = []struct {
		name string
		size int
	}{{"8 B", 8}, {"1 KiB", 1 << 10}, {"8 KiB", 8 << 10}}
)

// insnTable returns all rows. The name of a row begins with that of its transport.
func insnTable() (rows []insnRow) {
	for _, transport := range []insnRow{
		{name: "self", tls: "self", flags: []string{"-self"}},
		{name: "posix", tls: "posix"},
		{name: "sysv", tls: "sysv"},
		{name: "tcp", tls: "tcp"},
		{name: "rc_verbs", tls: "rc_v", flags: []string{"-rdma", "rxe"}, ours: true},
		{name: "ud_verbs", tls: "ud_v", flags: []string{"-rdma", "rxe"}, ours: true},
	} {
		add := func(name, operation string, size int) {
			r := transport
			r.name, r.operation, r.size = r.name+" "+name, operation, size
			rows = append(rows, r)
		}
		for _, o := range insnOperations {
			for _, s := range insnSizes {
				add(o.name+" "+s.name, o.operation, s.size)
			}
		}
		add("fadd 8 B", "fadd", 8)
		add("idle", "idle", 0)
	}
	rows = append(rows, insnRow{name: "all idle", operation: "idle", tls: "self,posix,sysv,cma,tcp"})
	for _, r := range []insnRow{
		{name: "posix multi tag 8 B", operation: "tag", tls: "posix", flags: []string{"-multi"}},
		{name: "posix multi idle", operation: "idle", tls: "posix", flags: []string{"-multi"}},
		{name: "posix tag wait 8 B", operation: "tagwait", tls: "posix"},
		{name: "posix multi tag wait 8 B", operation: "tagwait", tls: "posix", flags: []string{"-multi"}},
		{name: "posix cancel", operation: "cancel", tls: "posix"},
		{name: "posix done 8 B", operation: "done", tls: "posix"},
		{name: "posix endpoint", operation: "endpoint", tls: "posix"},
		{name: "rc_verbs mlx5 tag 8 B", operation: "tag", tls: "rc_v", flags: []string{"-rdma", "mlx5"}},
		{name: "rc_verbs mlx5 put 8 B", operation: "put", tls: "rc_v", flags: []string{"-rdma", "mlx5"}},
		{name: "rc_verbs mlx5 idle", operation: "idle", tls: "rc_v", flags: []string{"-rdma", "mlx5"}},
		{name: "ud_verbs mlx5 tag 8 B", operation: "tag", tls: "ud_v", flags: []string{"-rdma", "mlx5"}},
		{name: "ud_verbs mlx5 idle", operation: "idle", tls: "ud_v", flags: []string{"-rdma", "mlx5"}},
	} {
		r.size, r.ours = 8, true
		rows = append(rows, r)
	}
	return rows
}

const (
	// insnPassages is how often the operation of a row is counted. Most passages have the same number
	// of instructions. Some do what is due now and then, such as a poll.
	insnPassages = 8

	// insnLimit ends a program that hangs. It takes a second or so, and where each step of a virtual machine's
	// program is one of its host's, a minute.
	insnLimit = 10 * time.Minute

	// insnTries is how often a row is counted before it has failed.
	insnTries = 3
)

// program is what is started for a row.
func (r insnRow) program(p program) insn.Program {
	devices := "lo"
	if slices.Contains(r.flags, "-rdma") {
		devices = "model0:1"
	}
	started := insn.Program{
		// A path of any length would move the stack, and what is on it to other cache lines.
		Dir:  filepath.Dir(p.path),
		Path: "./" + filepath.Base(p.path),
		Args: slices.Concat(r.flags, []string{r.operation, strconv.Itoa(r.size), strconv.Itoa(insnPassages)}),
		Env:  append([]string{"UCX_TLS=" + r.tls, "UCX_NET_DEVICES=" + devices}, p.env...),

		Mark:      "mark",
		Functions: *insnFuncs,
	}
	if p.ours {
		started.Mark = "main.mark"
		started.Aside = []string{
			"main.(*pair).drain",
			"github.com/ucx-go/ucx/uct/ib/verbs/verbstest.", // elsewhere it is hardware
		}
	}
	return started
}

// insnResult is what was counted for a row.
type insnResult struct {
	ours, c *insn.Counts // nil where there is none
	err     error
}

// count counts a row, for C if c is not nil. A row of ours that has grown is counted again.
func (r insnRow) count(ours program, c *program, recorded insnRecord) (got insnResult) {
	one := func(p program) (*insn.Counts, error) {
		ctx, cancel := context.WithTimeout(context.Background(), insnLimit)
		defer cancel()
		return insn.Count(ctx, r.program(p))
	}
	for try := 0; try < insnTries && (got.ours == nil || recorded.grown(r.name, got.ours.Min())); try++ {
		again, err := one(ours)
		if err != nil {
			return insnResult{err: err}
		}
		if got.ours == nil || again.Min() < got.ours.Min() {
			got.ours = again
		}
	}
	if c == nil || r.ours {
		return got
	}
	for try := 0; try < insnTries && got.c == nil; try++ {
		got.c, got.err = one(*c)
	}
	return got
}

// TestInstructions counts the instructions of operations, and fails if an operation has more than
// recorded. Beside them it prints C's: of the first of CPEERS, or of the distribution's C UCX, if
// there is any.
func TestInstructions(t *testing.T) {
	if *insnRows == "" {
		t.Skip("asked for by -insn")
	}
	wanted, err := regexp.Compile(*insnRows)
	if err != nil {
		t.Fatal(err)
	}
	rows := slices.DeleteFunc(insnTable(), func(r insnRow) bool { return !wanted.MatchString(r.name) })
	recorded, err := readInsnRecord(insnRecordFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run(t, exec.Command("go", "build", "-o", dir, "./counted"))
	ours := program{name: "Go", ours: true, path: filepath.Join(dir, "counted")}
	c, reference := buildCounted(t, dir), "C"
	if c != nil {
		reference = c.name
	}
	before := recorded
	if *record {
		before = insnRecord{} // nothing is judged, so nothing is counted again
	}

	fmt.Printf("instructions of an operation: least and median of %d\n", insnPassages)
	if this := insnMachine(); recorded.machine != "" && recorded.machine != this {
		fmt.Printf("the record is of %s, this is %s: copies may differ, and what is compiled\n", recorded.machine, this)
	}
	fmt.Printf("%-26s %14s %14s %6s  %s\n", "", reference, "Go", "Go/C", "record, change")
	for i, got := range countRows(rows, ours, c, before) {
		r, result := rows[i], <-got
		if errors.Is(result.err, insn.ErrNotPermitted) {
			needtest.Call(t, result.err.Error())
		}
		if result.ours == nil {
			t.Errorf("%s: %v", r.name, result.err)
			continue
		}
		if result.err != nil {
			t.Logf("%s: %v", reference, result.err)
		}
		least := result.ours.Min()
		fmt.Printf("%-26s %s  %s\n", r.name, result, before.change(r.name, least))
		if before.grown(r.name, least) {
			t.Errorf("%s: %d instructions, recorded are %d", r.name, least, before.rows[r.name])
		}
		if *insnFuncs {
			result.printFunctions()
		}
		recorded.rows[r.name] = least
	}
	if *record { // also if a row has failed: the others were counted
		if err := recorded.write(insnRecordFile); err != nil {
			t.Fatal(err)
		}
		fmt.Println("kept in", insnRecordFile)
	}
}

// countRows counts rows, two at a time. Each result comes in a channel of its own.
func countRows(rows []insnRow, ours program, c *program, recorded insnRecord) []chan insnResult {
	results := make([]chan insnResult, len(rows))
	for i := range results {
		results[i] = make(chan insnResult, 1)
	}
	var next atomic.Int64
	for range 2 {
		go func() {
			for i := next.Add(1) - 1; i < int64(len(rows)); i = next.Add(1) - 1 {
				results[i] <- rows[i].count(ours, c, recorded)
			}
		}()
	}
	return results
}

// buildCounted builds C's program for the reference. It returns nil if there is no C UCX or no
// compiler.
func buildCounted(t *testing.T, dir string) *program {
	t.Helper()
	list := prefixes()
	if _, err := exec.LookPath("gcc"); err != nil || len(list) == 0 {
		return nil
	}
	prefix := list[min(1, len(list)-1)]
	p := &program{path: filepath.Join(dir, "counted-c")}
	if prefix != distribution {
		p.env = []string{"LD_LIBRARY_PATH=" + filepath.Join(prefix, "lib")}
	}
	run(t, compiler(prefix, p.path, "../testdata/counted/counted.c"))
	p.name = strings.TrimSpace(output(t, "env", append(slices.Clone(p.env), p.path)...))
	return p
}

// String returns C's numbers, ours and the ratio in columns.
func (r insnResult) String() string {
	cell := func(c *insn.Counts) string {
		if c == nil {
			return ""
		}
		return fmt.Sprintf("%d %d", c.Min(), c.Median())
	}
	ratio := ""
	if r.c != nil {
		ratio = fmt.Sprintf("%.2f", float64(r.ours.Min())/float64(r.c.Min()))
	}
	return fmt.Sprintf("%14s %14s %6s", cell(r.c), cell(r.ours), ratio)
}

// printFunctions prints the instructions of the smallest passage by function, ours and C's side by
// side.
func (r insnResult) printFunctions() {
	var c []insn.FunctionCount
	if r.c != nil {
		c = r.c.Functions
	}
	cell := func(list []insn.FunctionCount, i int) string {
		if i >= len(list) {
			return ""
		}
		return fmt.Sprintf("%5d %s", list[i].Count, strings.TrimPrefix(list[i].Name, "github.com/ucx-go/ucx/"))
	}
	for i := range max(len(r.ours.Functions), len(c)) {
		fmt.Println(strings.TrimRight(fmt.Sprintf("    %-60s %s", cell(r.ours.Functions, i), cell(c, i)), " "))
	}
}

// insnRecord is the least instructions of our rows, as they were recorded.
type insnRecord struct {
	machine string // where they were counted; see insnMachine
	rows    map[string]int
}

// insnRecordFile has a comment with the machine, and a line for each row, with a tab between its
// name and its number.
const insnRecordFile = recordDir + "/instructions.txt"

const insnRecordHead = "# Instructions of an operation, counted by make bench-insn: "

// insnMachine is what numbers depend on beside this module: the compiler, and the processor for
// which copies are chosen.
func insnMachine() string { return runtime.Version() + ", " + cpuModel() }

// readInsnRecord reads a file. There may be none yet.
func readInsnRecord(name string) (insnRecord, error) {
	r := insnRecord{rows: make(map[string]int)}
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if machine, ok := strings.CutPrefix(line, insnRecordHead); ok {
			r.machine = machine
			continue
		}
		row, number, _ := strings.Cut(line, "\t")
		n, err := strconv.Atoi(number)
		if err != nil || n <= 0 {
			return r, fmt.Errorf("%s: line %q, want a name, a tab and a number", name, line)
		}
		r.rows[row] = n
	}
	return r, nil
}

// write writes the rows in the order of the table, without those that are not in it.
func (r insnRecord) write(name string) error {
	text := insnRecordHead + insnMachine() + "\n"
	for _, row := range insnTable() {
		if n, ok := r.rows[row.name]; ok {
			text += fmt.Sprintf("%s\t%d\n", row.name, n)
		}
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// grown reports whether a row has more instructions than recorded, by more than 2 % and by more
// than 4.
func (r insnRecord) grown(row string, now int) bool {
	old, known := r.rows[row]
	return known && now > old+4 && 50*now > 51*old
}

// change says how far a row is from what is recorded.
func (r insnRecord) change(row string, now int) string {
	old, known := r.rows[row]
	switch {
	case !known:
		return ""
	case r.grown(row, now):
		return fmt.Sprintf("%d %+d: MORE", old, now-old)
	}
	return fmt.Sprintf("%d %+d", old, now-old)
}

func TestInsnTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range insnTable() {
		if seen[r.name] || r.operation == "" || r.tls == "" || strings.Contains(r.name, "\t") {
			t.Errorf("row %+v", r)
		}
		seen[r.name] = true
	}
	kept, err := readInsnRecord(insnRecordFile)
	if err != nil {
		t.Fatal(err)
	}
	for name := range kept.rows {
		if !seen[name] {
			t.Errorf("%s has %q, which is no row", insnRecordFile, name)
		}
	}
	for name := range seen {
		if kept.rows[name] == 0 {
			t.Errorf("%s has no %q", insnRecordFile, name)
		}
	}
}

func TestInsnRecord(t *testing.T) {
	name := filepath.Join(t.TempDir(), "record")
	if r, err := readInsnRecord(name); err != nil || len(r.rows) != 0 {
		t.Errorf("%v, %v without a file", r, err)
	}
	if err := (insnRecord{rows: map[string]int{"posix idle": 100, "all idle": 1000, "gone": 3}}).write(name); err != nil {
		t.Fatal(err)
	}
	r, err := readInsnRecord(name)
	if err != nil || r.machine != insnMachine() || len(r.rows) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, tc := range []struct {
		row   string
		now   int
		grown bool
		want  string
	}{
		{"posix idle", 104, false, "100 +4"},
		{"posix idle", 105, true, "100 +5: MORE"},
		{"all idle", 1020, false, "1000 +20"},
		{"all idle", 1021, true, "1000 +21: MORE"},
		{"all idle", 900, false, "1000 -100"},
		{"tcp idle", 5000, false, ""},
	} {
		if grown, change := r.grown(tc.row, tc.now), r.change(tc.row, tc.now); grown != tc.grown || change != tc.want {
			t.Errorf("%s %d: %v, %q; want %v, %q", tc.row, tc.now, grown, change, tc.grown, tc.want)
		}
	}
	for _, bad := range []string{"posix idle", "posix idle\tx", "posix idle\t0", ""} {
		put(t, name, []byte(bad+"\n"))
		if r, err := readInsnRecord(name); err == nil {
			t.Errorf("%q: %+v", bad, r)
		}
	}
}
