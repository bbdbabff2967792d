// Fuzzseeds keeps what fuzzing has found: of the inputs that `go test -fuzz` has
// left in its cache, the few that reach code which the seeds in the source and
// those kept before do not reach. They go to testdata/fuzz of the package, where
// every run of its tests tries them.
//
//	go run ./internal/fuzzseeds PACKAGE TARGET
//
// Each input runs by itself, in a test binary that counts how often each part of
// the module is reached; once, twice and often are different things. The input
// that adds the most is taken first, the smaller of two equals, until none adds
// anything or enough are there.
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
	most    = 32      // inputs of a target
	longest = 8 << 10 // bytes of one
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

// target is a fuzz target with the binary that tries its inputs.
type target struct {
	name   string
	dir    string // of the package
	seeds  string // where inputs are kept
	cache  string // where go test leaves them
	binary string
	work   string // temporary
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

// prepare finds a package and builds its tests, with a count of what is covered
// in all of the module that they use.
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

// names returns the files of a directory that may not exist.
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

// blocks are pieces of source without branches, as in a coverage profile, each with
// the bits of the number that says how often it was reached.
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

// without counts what is not in the other set.
func (b blocks) without(other blocks) (n int) {
	for k := range b {
		if !other[k] {
			n++
		}
	}
	return n
}

// try runs the inputs whose names match and returns what they reach.
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

// reached reads a coverage profile.
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

// tryAll runs inputs of the cache one by one. They have to lie among the seeds for
// that.
func (t *target) tryAll(found []string) (list []candidate, err error) {
	if len(found) == 0 {
		return nil, nil
	}
	if err := os.MkdirAll(t.seeds, 0o755); err != nil {
		return nil, err
	}
	defer os.Remove(t.seeds) // succeeds where nothing is kept
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

// choose takes candidates that add to what is reached, at most n.
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
