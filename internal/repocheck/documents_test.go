package repocheck

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	linked   = regexp.MustCompile(`\]\(([^)#]+)`)
	made     = regexp.MustCompile("(?m)(?:`|^    )make ([a-z][a-z0-9-]*)")
	placeTop = []string{".ci", "cmd", "docs", "examples", "internal", "interop", "proto", "scripts", "testdata", "ucp", "ucs", "uct"}
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

// exported reads the lists of what the packages export: their names, and the
// members of types as Type.Member.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../apicheck/testdata/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	names := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pkg := strings.TrimSuffix(filepath.Base(file), ".txt")
		pkg = pkg[strings.LastIndexByte(pkg, '-')+1:]
		of := ""
		for line := range strings.Lines(string(text)) {
			m := listed.FindStringSubmatch(line)
			switch {
			case m == nil:
			case strings.HasPrefix(line, "\t"):
				names[of+"."+m[1]], names["."+m[1]] = true, true
			default:
				of = m[1]
				names[pkg+"."+of] = true
			}
		}
	}
	return names
}

var (
	listed = regexp.MustCompile(`^\t?(?:const|var|func|type|field|method)(?: \([^)]*\))? (\w+)`)
	member = regexp.MustCompile("`(?:\\w+\\.)?([A-Z]\\w+\\.[A-Z]\\w+)`")
	used   = regexp.MustCompile(`\b(?:ucp|ucpnet|ucs|uct|verbs|verbstest|rdmacm)\.[A-Z]\w*`)
	called = regexp.MustCompile(`(\.[A-Z]\w*)\(`)
)

// unknownNames are the names in a document that no package exports: members of
// types that are quoted, and what blocks of Go call.
func unknownNames(text string, known map[string]bool) (unknown []string) {
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		var names []string
		if code {
			names = used.FindAllString(line, -1)
			for _, m := range called.FindAllStringSubmatchIndex(line, -1) {
				before := line[:m[2]]
				from := strings.LastIndexFunc(before, func(r rune) bool {
					return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
				}) + 1
				if pkg := before[from:]; !slices.Contains([]string{"context", "fmt", "http"}, pkg) && !used.MatchString(pkg+line[m[2]:m[3]]) {
					names = append(names, line[m[2]:m[3]])
				}
			}
		} else {
			for _, m := range member.FindAllStringSubmatch(line, -1) {
				names = append(names, m[1])
			}
		}
		for _, n := range names {
			if !known[n] {
				unknown = append(unknown, n)
			}
		}
	}
	return unknown
}

func TestDocumentedNames(t *testing.T) {
	sources(t) // skips where there are none
	known := exported(t)
	for _, d := range documents(t) {
		if slices.Contains([]string{"CHANGELOG.md", "CONTRIBUTING.md"}, filepath.Base(d)) {
			continue
		}
		text, err := os.ReadFile(d)
		if err != nil {
			t.Fatal(err)
		}
		prose := goBlock.ReplaceAllString(string(text), "") // blocks are compiled
		for _, n := range unknownNames(prose, known) {
			t.Errorf("%s names %s, which no package exports", d, n)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	known := map[string]bool{"ucp.NewContext": true, "Worker.Wait": true, ".Wait": true}
	got := unknownNames("`Worker.Wait`, `Worker.Gone`, `uct.Worker.Lost`, `Worker.hidden`\n"+
		"```go\nctx, err := ucp.NewContext(ucp.Params{}).Wait().Else(context.Background())\n```\n", known)
	if want := []string{"Worker.Gone", "Worker.Lost", "ucp.Params", ".Else"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
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
