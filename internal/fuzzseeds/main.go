// Fuzzseeds keeps a selection of the inputs that `go test -fuzz` has left in its cache: the few
// that reach code which neither the seeds in the source nor the inputs kept before reach. It copies
// them to testdata/fuzz of the package, where every run of the package's tests runs them.
//
//	go run ./internal/fuzzseeds PACKAGE TARGET
//
// Each input runs alone, in a test binary that counts how often each block of the module is
// reached. Counts are compared by their number of bits, so once, twice and often differ. The input
// that adds the most blocks is taken first, the smaller of two equals, until none adds any or the
// limit of inputs is reached.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	most    = 32      // the largest number of inputs that are kept for a target
	longest = 8 << 10 // the largest size of an input that is kept, in bytes
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: fuzzseeds PACKAGE TARGET")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "fuzzseeds:", err)
		os.Exit(1)
	}
}

// target is a fuzz target with the test binary that runs its inputs.
type target struct {
	name   string
	dir    string // directory of the package
	seeds  string // the directory of the kept inputs
	cache  string // the directory in which go test leaves inputs
	binary string
	work   string // a temporary directory
}

func run(pattern, name string) error {
	t, err := prepare(pattern, name)
	if t != nil {
		defer os.RemoveAll(t.work)
	}
	if err != nil {
		return err
	}
	kept, err := names(t.seeds)
	if err != nil {
		return err
	}
	found, err := names(t.cache)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(n string) bool { return slices.Contains(kept, n) })
	reached, err := t.try("seed#[0-9]+")
	if err != nil {
		return err
	}
	for _, n := range kept {
		blocks, err := t.try(regexp.QuoteMeta(n))
		if err != nil {
			return err
		}
		reached.add(blocks)
	}
	candidates, err := t.tryAll(found)
	if err != nil {
		return err
	}
	chosen := choose(candidates, reached, most-len(kept))
	for _, c := range chosen {
		if err := copyFile(filepath.Join(t.seeds, c.name), filepath.Join(t.cache, c.name)); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d inputs kept before, %d of %d new ones kept\n", name, len(kept), len(chosen), len(found))
	return nil
}

// prepare finds a package and builds its test binary, with coverage of all packages of the module
// that it depends on.
func prepare(pattern, name string) (*target, error) {
	var p struct {
		ImportPath, Dir string
		Module          struct{ Path string }
		Deps            []string
	}
	out, err := command("", "go", "list", "-test=false", "-json=ImportPath,Dir,Module,Deps", "--", pattern)
	if err == nil {
		err = json.Unmarshal(out, &p)
	}
	if err != nil {
		return nil, err
	}
	cache, err := command("", "go", "env", "GOCACHE")
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "fuzzseeds")
	if err != nil {
		return nil, err
	}
	t := &target{
		name:   name,
		dir:    p.Dir,
		seeds:  filepath.Join(p.Dir, "testdata", "fuzz", name),
		cache:  filepath.Join(strings.TrimSpace(string(cache)), "fuzz", p.ImportPath, name),
		binary: filepath.Join(work, "tests"),
		work:   work,
	}
	covered := p.ImportPath
	for _, d := range p.Deps {
		if strings.HasPrefix(d, p.Module.Path+"/") {
			covered += "," + d
		}
	}
	_, err = command("", "go", "test", "-c", "-covermode=count", "-coverpkg="+covered, "-o", t.binary, p.ImportPath)
	return t, err
}

func command(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", cmd, err, out, stderr.Bytes())
	}
	return out, err
}

// names returns the names of the files in a directory, or none if the directory does not exist.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list, err
}

// blocks is a set of branch-free pieces of source, as in a coverage profile, each with the number
// of bits of its count.
type blocks map[block]bool

type block struct {
	place string
	bits  int
}

func (b blocks) add(more blocks) {
	for k := range more {
		b[k] = true
	}
}

// without returns the number of blocks in b that are not in the other set.
func (b blocks) without(other blocks) (n int) {
	for k := range b {
		if !other[k] {
			n++
		}
	}
	return n
}

// try runs the inputs whose names match the pattern and returns the blocks they reach.
func (t *target) try(pattern string) (blocks, error) {
	profile := filepath.Join(t.work, "profile")
	out, err := command(t.dir, t.binary, "-test.run=^"+t.name+"$/^"+pattern+"$", "-test.coverprofile="+profile)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(out, []byte("no tests to run")) {
		return nil, fmt.Errorf("there is no %s", t.name)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	return reached(string(text)), nil
}

// reached parses a coverage profile.
func reached(profile string) blocks {
	b := make(blocks)
	for line := range strings.Lines(profile) {
		// name.go:line.column,line.column statements count
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		if n, err := strconv.ParseUint(f[2], 10, 64); err == nil && n > 0 {
			b[block{f[0], bits.Len64(n)}] = true
		}
	}
	return b
}

// candidate is an input that may be kept.
type candidate struct {
	name    string
	size    int64
	reaches blocks
}

// tryAll runs inputs of the cache one by one. Each is copied among the seeds while it runs.
func (t *target) tryAll(found []string) (list []candidate, err error) {
	if len(found) == 0 {
		return nil, nil
	}
	if err := os.MkdirAll(t.seeds, 0o755); err != nil {
		return nil, err
	}
	defer os.Remove(t.seeds) // fails, as intended, if inputs are kept there
	for _, n := range found {
		from, to := filepath.Join(t.cache, n), filepath.Join(t.seeds, n)
		info, err := os.Stat(from)
		if err != nil {
			return nil, err
		}
		if info.Size() > longest {
			continue
		}
		if err := copyFile(to, from); err != nil {
			return nil, err
		}
		b, err := t.try(regexp.QuoteMeta(n))
		if rerr := os.Remove(to); err == nil {
			err = rerr
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		list = append(list, candidate{n, info.Size(), b})
	}
	return list, nil
}

// choose takes at most n candidates that add to the blocks reached.
func choose(list []candidate, have blocks, n int) []candidate {
	list = slices.Clone(list)
	var chosen []candidate
	for len(chosen) < n {
		best := slices.MaxFunc(append(list, candidate{}), func(a, b candidate) int {
			return cmp.Or(
				cmp.Compare(a.reaches.without(have), b.reaches.without(have)),
				cmp.Compare(b.size, a.size),
				cmp.Compare(b.name, a.name))
		})
		if best.reaches.without(have) == 0 {
			break
		}
		chosen = append(chosen, best)
		have.add(best.reaches)
	}
	return chosen
}

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
