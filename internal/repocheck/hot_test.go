package repocheck

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/repocheck/gopkg"
)

// Each operation on the path of a message costs single nanoseconds. A harmless change can make the
// compiler stop inlining a function, or add a bounds check. hot.txt claims for functions that they
// are
//
//	inline      inlined at their callers
//	nobounds    without bounds checks, except in functions inlined into them
//	bounds=N    with exactly N bounds checks, so that a removed one stays removed
//	noalloc     without values that escape to the heap
//
// as compiled for linux/amd64. To see more remarks of the compiler:
//
//	go build -gcflags='-m=2 -d=ssa/check_bce' ./ucp 2>&1 | grep tag_match.go
const hotFile = "testdata/hot.txt"

// A remark is a diagnostic of the compiler about a line.
type remark struct {
	line int
	text string
}

var compilerLine = regexp.MustCompile(`^([^\s:]+\.go):(\d+):\d+: (.*)$`)

// readRemarks sorts the output of the compiler by file.
func readRemarks(out string) map[string][]remark {
	remarks := make(map[string][]remark)
	seen := make(map[string]bool)
	for line := range strings.Lines(out) {
		if seen[line] {
			continue // a check is reported for each copy of a function
		}
		seen[line] = true
		m := compilerLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			continue
		}
		file := path.Clean(m[1])
		remarks[file] = append(remarks[file], remark{n, m[3]})
	}
	return remarks
}

// isCheck reports whether a remark is about a bounds check.
func isCheck(r remark) bool { return r.text == "Found IsInBounds" || r.text == "Found IsSliceInBounds" }

// broken returns the remarks that contradict a claim about the function between two lines.
func broken(claim string, from, to int, remarks []remark) (wrong []string) {
	name, count, _ := strings.Cut(claim, "=")
	can, checks := false, 0
	for _, r := range remarks {
		if r.line < from || r.line > to {
			continue
		}
		bad := false
		switch name {
		case "inline":
			can = can || r.line == from && strings.HasPrefix(r.text, "can inline ")
			bad = r.line == from && strings.HasPrefix(r.text, "cannot inline ")
		case "nobounds":
			bad = isCheck(r)
		case "bounds":
			if isCheck(r) {
				checks++
			}
		case "noalloc":
			bad = strings.HasSuffix(r.text, " escapes to heap") || strings.HasPrefix(r.text, "moved to heap: ")
		default:
			return []string{"there is no such claim"}
		}
		if bad {
			wrong = append(wrong, fmt.Sprintf("line %d: %s", r.line, r.text))
		}
	}
	if name == "inline" && !can && wrong == nil {
		return []string{"the compiler does not say that it can"}
	}
	if name == "bounds" && strconv.Itoa(checks) != count {
		return []string{fmt.Sprintf("there are %d checks", checks)}
	}
	return wrong
}

func TestHot(t *testing.T) {
	text, err := os.ReadFile(hotFile)
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		file     string
		from, to int
	}
	places := make(map[string]place) // by folder and function
	for _, s := range sources(t) {
		if s.test() || strings.HasSuffix(s.name, "_arm64.go") || !builtForAMD64(s.file) {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				name := s.dir() + " " + gopkg.FuncName(f)
				places[name] = place{s.name, s.fset.Position(f.Name.Pos()).Line, s.fset.Position(f.End()).Line}
			}
		}
	}

	var folders []string
	var claims [][]string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 && !strings.HasPrefix(line, "#") {
			if len(fields) < 3 {
				t.Fatalf("%s: %q has no claim", hotFile, line)
			}
			claims = append(claims, fields)
			folders = append(folders, "./"+fields[0])
		}
	}
	if len(claims) < 10 {
		t.Fatalf("only %d functions in %s", len(claims), hotFile)
	}
	slices.Sort(folders)
	args := append([]string{"build", "-gcflags=-m=2 -d=ssa/check_bce", "--"}, slices.Compact(folders)...)
	cmd := exec.Command("go", args...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("no go command here: %v", err)
	}
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, bytes.TrimSpace(out[max(0, len(out)-2000):]))
	}
	remarks := readRemarks(string(out))
	for _, c := range claims {
		name := c[0] + " " + c[1]
		p, ok := places[name]
		if !ok {
			t.Errorf("%s: there is no such function", name)
			continue
		}
		if len(remarks[p.file]) == 0 {
			t.Errorf("%s: the compiler says nothing about %s", name, p.file)
		}
		for _, claim := range c[2:] {
			for _, wrong := range broken(claim, p.from, p.to, remarks[p.file]) {
				t.Errorf("%s (%s) is not %s: %s", name, p.file, claim, wrong)
			}
		}
	}
}

// TestBroken checks the claims on a program that violates each of them.
func TestBroken(t *testing.T) {
	const program = `package p

func small(a int) int { return a + 1 }

func big(list []int) (sum int) {
	for range list {
		for range list {
			defer println(sum)
		}
	}
	return list[sum]
}

func leak() *int { x := 1; return &x }

func slice(list []int, n int) []int { return list[:n] }
`
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/p\n\ngo 1.24\n", "p.go": program} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-gcflags=-m=2 -d=ssa/check_bce", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("no go command here: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	remarks := readRemarks(string(out))["p.go"]
	for _, tc := range []struct {
		claim    string
		from, to int
		want     bool
	}{
		{"inline", 3, 3, true},
		{"nobounds", 3, 3, true},
		{"noalloc", 3, 3, true},
		{"inline", 5, 12, false},
		{"nobounds", 5, 12, false},
		{"bounds=1", 5, 12, true},
		{"bounds=2", 5, 12, false},
		{"bounds=0", 5, 12, false},
		{"noalloc", 14, 14, false},
		{"nobounds", 16, 16, false},
		{"inline", 1, 1, false}, // no function
		{"other", 3, 3, false},
	} {
		if wrong := broken(tc.claim, tc.from, tc.to, remarks); (wrong == nil) != tc.want {
			t.Errorf("%s of line %d: %v; the compiler says\n%s", tc.claim, tc.from, wrong, out)
		}
	}
}

// builtForAMD64 reports whether a file is built for linux/amd64 without the race detector, by its
// build constraint if it has one.
func builtForAMD64(f *ast.File) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if constraint.IsGoBuild(c.Text) {
				x, err := constraint.Parse(c.Text)
				return err == nil && x.Eval(func(tag string) bool {
					return tag == "linux" || tag == "amd64" || tag == "unix" || strings.HasPrefix(tag, "go1.")
				})
			}
		}
	}
	return true
}
