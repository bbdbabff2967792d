package repocheck

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/apicheck"
)

var (
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	linked   = regexp.MustCompile(`\]\(([^)#]+)`)
	made     = regexp.MustCompile("(?m)(?:`|^    )make ([a-z][a-z0-9-]*)")
	placeTop = []string{".ci", "cmd", "docs", "examples", "internal", "interop", "proto", "scripts", "testdata", "ucp", "ucs", "uct"}
)

// places returns the files and folders of the module that a document names: quotes that begin with
// one of its folders, and links. Blocks of code, and names with placeholders, do not count.
func places(text string) (list []string) {
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if code || strings.HasPrefix(line, "    ") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			top, _, deep := strings.Cut(m[1], "/")
			if deep && slices.Contains(placeTop, top) && !strings.ContainsAny(m[1], "<>{}*… ") {
				list = append(list, m[1])
			}
		}
		for _, m := range linked.FindAllStringSubmatch(line, -1) {
			if !strings.Contains(m[1], "://") {
				list = append(list, m[1])
			}
		}
	}
	return list
}

// TestDocuments: the files, folders and make targets that the documents name exist.
func TestDocuments(t *testing.T) {
	below := make(map[string]bool) // folders that may be named by the end of their path
	for _, s := range sources(t) {
		for dir := s.dir(); dir != "."; dir = path.Dir(dir) {
			below[dir] = true
			for _, local := range []string{"fuzz", "sysfs"} {
				if _, err := os.Stat(filepath.Join("../..", dir, "testdata", local)); err == nil {
					below[dir+"/testdata/"+local] = true
				}
			}
		}
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents(t) {
		text, err := os.ReadFile(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range places(string(text)) {
			p = strings.TrimSuffix(p, "/...")
			_, atRoot := os.Stat(filepath.Join("../..", filepath.FromSlash(p)))
			_, beside := os.Stat(filepath.Join(filepath.Dir(d), filepath.FromSlash(p)))
			if atRoot != nil && beside != nil && !endsAny(below, p) {
				t.Errorf("%s names %s, which is not there", filepath.Base(d), p)
			}
		}
		for _, m := range made.FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`(?m)^[a-z0-9 -]*\b` + m[1] + `( [a-z -]*)?:`).Match(makefile) {
				t.Errorf("%s names make %s, which the Makefile does not have", filepath.Base(d), m[1])
			}
		}
	}
}

// exported returns the members of exported types, as Type.Member.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	list, err := apicheck.Names("../apicheck/testdata")
	if err != nil || len(list) == 0 {
		t.Fatalf("%d names, %v", len(list), err)
	}
	members := make(map[string]bool)
	for name := range list {
		if _, member, _ := strings.Cut(name, "."); strings.Contains(member, ".") {
			members[member] = true
		}
	}
	return members
}

var member = regexp.MustCompile("`(?:\\w+\\.)?([A-Z]\\w+\\.[A-Z]\\w+)`")

// unknownNames returns the members of types that a document quotes and no package exports. Blocks
// of Go are left out, as they are compiled (TestSnippets).
func unknownNames(text string, known map[string]bool) (unknown []string) {
	for _, m := range member.FindAllStringSubmatch(goBlock.ReplaceAllString(text, ""), -1) {
		if !known[m[1]] {
			unknown = append(unknown, m[1])
		}
	}
	return unknown
}

func TestDocumentedNames(t *testing.T) {
	sources(t) // skips the test without the source
	known := exported(t)
	for _, d := range documents(t) {
		if slices.Contains([]string{"CHANGELOG.md", "CONTRIBUTING.md"}, filepath.Base(d)) {
			continue
		}
		text, err := os.ReadFile(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range unknownNames(string(text), known) {
			t.Errorf("%s names %s, which no package exports", d, n)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	got := unknownNames("`Worker.Wait`, `Worker.Gone`, `uct.Worker.Lost`, `Worker.hidden`\n```go\n`Worker.InCode`\n```\n",
		map[string]bool{"Worker.Wait": true})
	if want := []string{"Worker.Gone", "Worker.Lost"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// endsAny reports whether a path is the end of a folder's path, such as internal/host for
// uct/internal/host.
func endsAny(folders map[string]bool, p string) bool {
	if !strings.HasPrefix(p, "internal/") && !strings.HasPrefix(p, "testdata/") {
		return false
	}
	for f := range folders {
		if strings.HasSuffix(f, "/"+p) {
			return true
		}
	}
	return false
}

func TestPlaces(t *testing.T) {
	got := places("See `ucp/protocol.go` and [it](SECURITY.md), `uct/<name>`, `other/thing`, `ucs/{a,b}`,\n" +
		"[C](https://example.com) and `ucp`.\n```go\n`ucp/code.go`\n```\n    `ucp/block.go`\n`uct/tcp/...`\n")
	if want := []string{"ucp/protocol.go", "SECURITY.md", "uct/tcp/..."}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
