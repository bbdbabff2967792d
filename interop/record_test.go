//go:build linux

package interop

import (
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Results of TestRatio are kept in the tree: each file of testdata/bench is a recorded run, with a
// row for each case. The next run is compared with the latest row of the same case, CPU model and C
// UCX, with a similar round trip of a cache line. Changes are printed, not judged: an unexplained
// change should be measured again before it is believed.

const recordDir = "../testdata/bench"

var record = flag.Bool("record", false, "keep what was measured: TestRatio in a new file of testdata/bench, TestInstructions in instructions.txt there")

// recordHead is the first line of each file.
const recordHead = "# date\tcommit\tcpu\tC UCX\tline ns\tcase\tunit\trounds\tC\tGo\tGo/C"

// measurement is what one case gave, in medians.
type measurement struct {
	date      string // 2006-01-02
	commit    string // with + if the tree was modified
	cpu       string // model and number
	reference string
	line      time.Duration // round trip of a cache line between two CPUs
	name      string
	unit      string
	rounds    int
	c, ours   float64
}

func (r measurement) ratio() float64 { return r.ours / r.c }

func (r measurement) String() string {
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d\t%.4g\t%.4g\t%.3f",
		r.date, r.commit, r.cpu, r.reference, r.line.Nanoseconds(), r.name, r.unit, r.rounds, r.c, r.ours, r.ratio())
}

func parseRow(text string) (r measurement, err error) {
	f := strings.Split(text, "\t")
	if len(f) != 11 {
		return r, fmt.Errorf("%d fields in %q, want 11", len(f), text)
	}
	r = measurement{date: f[0], commit: f[1], cpu: f[2], reference: f[3], name: f[5], unit: f[6]}
	if _, err := time.Parse(time.DateOnly, r.date); err != nil {
		return r, err
	}
	line, err := strconv.Atoi(f[4])
	if err != nil {
		return r, err
	}
	r.line = time.Duration(line) * time.Nanosecond
	if r.rounds, err = strconv.Atoi(f[7]); err != nil {
		return r, err
	}
	if r.c, err = strconv.ParseFloat(f[8], 64); err != nil {
		return r, err
	}
	r.ours, err = strconv.ParseFloat(f[9], 64)
	return r, err
}

// readRecords returns the rows of all files, the latest first.
func readRecords(files fs.FS) ([]measurement, error) {
	names, err := fs.Glob(files, "*.tsv")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	slices.Reverse(names) // names begin with the date; later runs of a day have a number after it
	var rows []measurement
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			r, err := parseRow(strings.TrimSuffix(line, "\n"))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b measurement) int { return cmp.Compare(b.date, a.date) })
	return rows, nil
}

// near reports whether a cache line moves between the CPUs within one part of the machine. On
// virtual machines that changes without notice, and affects everything in shared memory.
func near(line time.Duration) bool { return line < 200*time.Nanosecond }

// before returns the latest row of the same kind.
func (r measurement) before(rows []measurement) (measurement, bool) {
	i := slices.IndexFunc(rows, func(o measurement) bool {
		return o.name == r.name && o.unit == r.unit && o.cpu == r.cpu && o.reference == r.reference && near(o.line) == near(r.line)
	})
	if i < 0 {
		return measurement{}, false
	}
	return rows[i], true
}

// change describes how far the ratio is from the recorded one.
func (r measurement) change(rows []measurement) string {
	old, ok := r.before(rows)
	if !ok {
		return "no record"
	}
	return fmt.Sprintf("%+.1f %% since %s %s", 100*(r.ratio()/old.ratio()-1), old.date, old.commit)
}

// thisRun returns what is the same in all rows of a run.
func thisRun(reference string, rounds int) measurement {
	return measurement{date: time.Now().UTC().Format(time.DateOnly), commit: commit(), cpu: cpuModel(), reference: reference, rounds: rounds}
}

// commit returns the commit of the tree, "unknown" without git.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(out))
	if exec.Command("git", "diff", "--quiet", "HEAD").Run() != nil {
		name += "+"
	}
	return name
}

// cpuModel returns the kernel's name of the CPUs, and their number.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	model, n := "unknown", 0
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "processor":
			n++
		case "model name":
			model = strings.Join(strings.Fields(value), " ")
		}
	}
	return fmt.Sprintf("%d × %s", n, model)
}

// keep writes rows to a new file and returns its name.
func keep(dir string, rows []measurement) (string, error) {
	if len(rows) == 0 {
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString(recordHead + "\n")
	for _, r := range rows {
		text.WriteString(r.String() + "\n")
	}
	for k := 1; ; k++ {
		name := filepath.Join(dir, fmt.Sprintf("%s-%02d.tsv", rows[0].date, k))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.WriteString(text.String())
		return name, cmp.Or(err, f.Close())
	}
}

func TestRecords(t *testing.T) {
	kept, err := readRecords(os.DirFS(recordDir))
	if err != nil {
		t.Error(err)
	}
	for _, r := range kept {
		if !slices.ContainsFunc(ratioCases, func(k ratioCase) bool { return k.name == r.name && k.measure.unit == r.unit }) {
			t.Errorf("%v: there is no such case", r)
		}
	}

	base := measurement{date: "2026-01-31", commit: "0123456789+", cpu: "2 × Some CPU @ 3 GHz", reference: "C 1.13.1",
		line: 70, name: "posix tag_lat 8 B", unit: "µs", rounds: 11, c: 0.2, ours: 0.1}
	if got, err := parseRow(base.String()); err != nil || got != base {
		t.Errorf("%v, %v; want %v", got, err, base)
	}
	for _, bad := range []string{"", base.String() + "\t1", "yesterday" + base.String()[10:], strings.Replace(base.String(), "0.2", "x", 1)} {
		if r, err := parseRow(bad); err == nil {
			t.Errorf("%q is %v", bad, r)
		}
	}

	dir := t.TempDir()
	older, far, otherC := base, base, base
	older.date, older.ours = "2025-12-01", 0.4
	far.line, far.ours = 400, 0.2
	otherC.reference, otherC.ours = "C 1.22.0", 0.3
	for _, rows := range [][]measurement{{base, far, otherC}, {older}, nil} {
		if _, err := keep(dir, rows); err != nil {
			t.Fatal(err)
		}
	}
	again := base
	again.ours = 0.11
	if name, err := keep(dir, []measurement{again}); err != nil || filepath.Base(name) != "2026-01-31-02.tsv" {
		t.Errorf("%s, %v", name, err)
	}
	rows, err := readRecords(os.DirFS(dir))
	if err != nil || len(rows) != 5 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	now := base
	now.date, now.ours = "2026-02-01", 0.22
	for _, tc := range []struct {
		m    measurement
		want string
	}{
		{now, "+100.0 % since 2026-01-31 0123456789+"}, // the second of that day
		{withLine(now, 399), "+10.0 % since 2026-01-31 0123456789+"},
		{withReference(now, "C 1.22.0"), "-26.7 % since 2026-01-31 0123456789+"},
		{withReference(now, "C 1.14.0"), "no record"},
	} {
		if got := tc.m.change(rows); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.m, got, tc.want)
		}
	}
	if m := cpuModel(); !strings.Contains(m, " × ") {
		t.Errorf("CPU model %q", m)
	}
}

func withLine(r measurement, d time.Duration) measurement  { r.line = d; return r }
func withReference(r measurement, name string) measurement { r.reference = name; return r }
