//go:build simulate

package simnet

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Mutants are faults of the library that the programs should notice: mutants/mutants.txt. They prove what the
// judge and the generator of programs can find. mutants/table.txt has what they have found.

var (
	simMutants     = flag.String("sim.mutants", "", "`regexp` of the names of mutants to run, which takes a minute for each")
	simMutantsTime = flag.Duration("sim.mutants.time", time.Minute, "how much `time` of the processor the programs get for each mutant")
)

// moduleRoot is the directory of the module.
const moduleRoot = "../../.."

// mutant is a change of one file of the library.
type mutant struct {
	name string
	file string // from the root of the module
	what string // what is wrong with the changed library
	old  string // exactly once in the file
	new  string
}

// readMutants reads the list of mutants.
func readMutants(t *testing.T) (all []*mutant) {
	b, err := os.ReadFile("mutants/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	m := new(mutant) // before the first one
	for n, line := range strings.Split(string(b), "\n") {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '-':
			m.old += line[1:] + "\n"
		case line[0] == '+':
			m.new += line[1:] + "\n"
		case word == "mutant":
			m = &mutant{name: rest}
			all = append(all, m)
		case word == "file":
			m.file = rest
		case word == "what":
			m.what = rest
		default:
			t.Fatalf("mutants.txt, line %d: %q", n+1, line)
		}
	}
	for _, m := range all {
		m.old, m.new = strings.TrimSuffix(m.old, "\n"), strings.TrimSuffix(m.new, "\n")
	}
	return all
}

// changed returns the file with the change.
func (m *mutant) changed() (string, error) {
	b, err := os.ReadFile(filepath.Join(moduleRoot, m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(b), m.old); n != 1 || m.old == "" {
		return "", fmt.Errorf("%s has the old text %d times, not once", m.file, n)
	}
	return strings.Replace(string(b), m.old, m.new, 1), nil
}

// TestMutantList checks that each mutant still is a change of the library, and that the table has it.
func TestMutantList(t *testing.T) {
	table, err := os.ReadFile("mutants/table.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]bool)
	for _, row := range regexp.MustCompile(`(?m)^([a-z0-9-]+): `).FindAllStringSubmatch(string(table), -1) {
		rows[row[1]] = true
	}
	seen := make(map[string]bool)
	for _, m := range readMutants(t) {
		if seen[m.name] || m.what == "" {
			t.Errorf("%s: the name is used twice, or it is not said what is wrong", m.name)
		}
		seen[m.name] = true
		if !rows[m.name] {
			t.Errorf("table.txt lacks %s: run -sim.mutants '^%s$'", m.name, m.name)
		}
		delete(rows, m.name)
		text, err := m.changed()
		if err == nil {
			_, err = parser.ParseFile(token.NewFileSet(), m.file, text, parser.SkipObjectResolution)
		}
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	for name := range rows {
		t.Errorf("table.txt has %s, which is no mutant", name)
	}
}

// TestMutants runs the programs with each mutant of -sim.mutants, and prints rows of the table.
func TestMutants(t *testing.T) {
	if *simMutants == "" {
		t.Skip("no -sim.mutants")
	}
	chosen, err := regexp.Compile(*simMutants)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	base := filepath.Join(dir, "base.test")
	if err := buildWith(base); err != nil {
		t.Fatal(err)
	}
	var total, noticed int
	for _, m := range readMutants(t) {
		if !chosen.MatchString(m.name) {
			continue
		}
		program, err := m.build(dir)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		total++
		f := search(t, program, base)
		if fmt.Printf("%s: %s\n", m.name, m.what); f.text == "" {
			name, text := searchKept(program)
			if name == "" {
				fmt.Printf("\tNOT NOTICED by %d programs, %.1f s\n", f.programs, f.cpu.Seconds())
				continue
			}
			noticed++
			fmt.Printf("\tnoticed by the kept program %s, not by %d programs, %.1f s: %.80s\n", name, f.programs, f.cpu.Seconds(), text)
			continue
		}
		noticed++
		fmt.Printf("\tnoticed by program %d, %.1f s: %.80s\n", f.programs, f.cpu.Seconds(), f.text)
	}
	fmt.Printf("%d of %d mutants are noticed\n", noticed, total)
}

// build builds the tests of this package with the mutant.
func (m *mutant) build(dir string) (program string, err error) {
	text, err := m.changed()
	if err != nil {
		return "", err
	}
	file, err := filepath.Abs(filepath.Join(moduleRoot, m.file))
	if err != nil {
		return "", err
	}
	source, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{file: source}})
	if err == nil {
		err = os.WriteFile(source, []byte(text), 0o666)
	}
	if err == nil {
		err = os.WriteFile(overlay, list, 0o666)
	}
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "mutant.test")
	return program, buildWith(program, "-overlay="+overlay)
}

// buildWith builds the tests of this package with options.
func buildWith(program string, options ...string) error {
	args := append([]string{"test", "-c", "-tags=simulate", "-vet=off", "-ldflags=-w", "-o", program}, options...)
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return nil
}

// findings is what programs have found.
type findings struct {
	programs int // number of programs that have run
	cpu      time.Duration
	seed     uint64 // of the program that has failed
	text     string // the failure, "" for none
}

var (
	begunSeed  = regexp.MustCompile(`(?m)^seed \d+$`)
	failedSeed = regexp.MustCompile(`(?m)^ +programs_test\.go:\d+: (?:seed \d+: (.*)|(two runs of seed \d+ differ))`)
	failedKept = regexp.MustCompile(`(?m)^    --- FAIL: TestKept/(\S+) .*\n +programs_test\.go:\d+: (.*)`)
	brokenRun  = regexp.MustCompile(`(?m)^(?:panic|fatal error): .*`)
)

// search runs programs up to the first one that fails because of the mutant: without it the program of the
// seed does not fail.
func search(t *testing.T, program, base string) (sum findings) {
	for seed := uint64(1); sum.cpu < *simMutantsTime; seed = sum.seed + 1 {
		f := runPrograms(t, program, seed, "-sim.cpu="+(*simMutantsTime-sum.cpu).String())
		sum = findings{sum.programs + f.programs, sum.cpu + f.cpu, f.seed, f.text}
		if f.text == "" || runPrograms(t, base, f.seed, "-sim.programs=1").text == "" {
			return sum
		}
		fmt.Printf("seed %d fails without a mutant, too: %s\n", f.seed, f.text)
		sum.text = ""
	}
	return sum
}

// searchKept runs the kept programs. It returns the name of the first one that fails, and the failure.
func searchKept(program string) (name, text string) {
	out, err := exec.Command(program, "-test.run=^TestKept$", "-test.timeout=0").CombinedOutput()
	if err == nil {
		return "", ""
	}
	if m := failedKept.FindSubmatch(out); m != nil {
		return string(m[1]), string(m[2])
	}
	return "?", fmt.Sprintf("%.80s", brokenRun.Find(out))
}

// runPrograms runs TestPrograms of a test binary, from a seed up to a limit or the first failure.
func runPrograms(t *testing.T, program string, seed uint64, limit string) (f findings) {
	c := exec.Command(program, "-test.run=^TestPrograms$", "-test.v", "-test.timeout=0", "-sim.progress", "-sim.shrink=0",
		fmt.Sprintf("-sim.seed=%d", seed), limit)
	out, err := c.CombinedOutput()
	f.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	f.programs = len(begunSeed.FindAll(out, -1))
	f.seed = seed + uint64(f.programs) - 1
	if err == nil {
		return f
	}
	if m := failedSeed.FindSubmatch(out); m != nil {
		f.text = string(m[1]) + string(m[2])
	} else if m := brokenRun.Find(out); m != nil {
		f.text = string(m)
	} else {
		t.Fatalf("%v\n%s", err, out[max(0, len(out)-2000):])
	}
	return f
}
