package repocheck

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	linked   = regexp.MustCompile(`\]\(([^)#]+)`)
	made     = regexp.MustCompile("(?m)(?:`|^    )make ([a-z][a-z-]*)")
	placeTop = []string{".ci", "cmd", "examples", "internal", "interop", "proto", "scripts", "testdata", "ucp", "ucs", "uct"}
)

// places are the files and folders of the module that a document names: what is
// quoted and begins with one of its folders, and what is linked. Blocks of code and
// names with parts left open are none.
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

// TestDocuments wants what the documents name to exist: files, folders, targets of
// make.
func TestDocuments(t *testing.T) {
	below := make(map[string]bool) // what is named without its beginning
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
	documents, err := filepath.Glob("../../*.md")
	if err != nil || len(documents) < 5 {
		t.Fatalf("%v, %v", documents, err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		text, err := os.ReadFile(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range places(string(text)) {
			p = strings.TrimSuffix(p, "/...")
			if _, err := os.Stat(filepath.Join("../..", filepath.FromSlash(p))); err != nil && !endsAny(below, p) {
				t.Errorf("%s names %s, which is not there", filepath.Base(d), p)
			}
		}
		for _, m := range made.FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`(?m)^[a-z -]*\b` + m[1] + `( [a-z -]*)?:`).Match(makefile) {
				t.Errorf("%s names make %s, which the Makefile does not have", filepath.Base(d), m[1])
			}
		}
	}
}

// endsAny reports whether a folder that belongs to one part, as internal/host does
// to uct/shm, is there.
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
	got := places("See `ucp/family.go` and [it](SECURITY.md), `uct/<name>`, `other/thing`, `ucs/{a,b}`,\n" +
		"[C](https://example.com) and `ucp`.\n```go\n`ucp/code.go`\n```\n    `ucp/block.go`\n`uct/tcp/...`\n")
	if want := []string{"ucp/family.go", "SECURITY.md", "uct/tcp/..."}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
