package repocheck

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var updateSnippets = flag.Bool("update", false, "write the snippets of the documents anew")

// A block of Go in a document shows a file, or the lines of a file between "// snippet NAME" and
// "// end". The line before the block names the file:
//
//	<!-- go: docs/guide_linux_test.go#server -->
var (
	goBlock  = regexp.MustCompile("(?ms)^(<!-- go: (\\S+) -->\n)?```go\n(.*?)^```$")
	testFile = regexp.MustCompile(`_test\.go$`)
	isRun    = regexp.MustCompile(`(?m)^(\t// Output:|func Test)`)
)

// snippet returns the text that a document shows of a place. A whole program needs a test beside
// it; any other text must be in a test file with tests, or with examples that have output.
func snippet(place string) (string, error) {
	file, name, part := strings.Cut(place, "#")
	text, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(file)))
	if err != nil {
		return "", err
	}
	switch {
	case !part:
		if tests, err := filepath.Glob(filepath.Join("../..", filepath.Dir(file), "*_test.go")); err != nil || len(tests) == 0 {
			return "", fmt.Errorf("%s has no test", file)
		}
		return string(text), nil
	case !testFile.MatchString(file) || !isRun.Match(text):
		return "", fmt.Errorf("%s has no tests, nor examples with their output", file)
	}
	_, body, ok := strings.Cut(string(text), "// snippet "+name+"\n")
	body, _, ended := strings.Cut(body, "// end\n")
	if !ok || !ended {
		return "", fmt.Errorf("%s has no snippet %s", file, name)
	}
	var b strings.Builder
	body = strings.TrimRight(strings.TrimLeft(body, "\n"), "\n\t") + "\n"
	indented := strings.HasPrefix(body, "\t")
	for line := range strings.Lines(body) {
		if indented {
			line = strings.TrimPrefix(line, "\t")
		}
		b.WriteString(line)
	}
	return b.String(), nil
}

// withSnippets returns a document with the current text of its snippets, and what was wrong.
func withSnippets(text string) (out string, flaws []string) {
	out = goBlock.ReplaceAllStringFunc(text, func(block string) string {
		m := goBlock.FindStringSubmatch(block)
		if m[2] == "" {
			first, _, _ := strings.Cut(m[3], "\n")
			flaws = append(flaws, fmt.Sprintf("the block of Go that begins with %q is not said to be from a file", first))
			return block
		}
		body, err := snippet(m[2])
		if err != nil {
			flaws = append(flaws, err.Error())
			return block
		}
		if body != m[3] {
			flaws = append(flaws, fmt.Sprintf("the block of %s is another text: go test ./internal/repocheck -update", m[2]))
		}
		return m[1] + "```go\n" + body + "```"
	})
	return out, flaws
}

// documents returns the documents of the module.
func documents(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, found...)
	}
	if len(list) < 5 {
		t.Fatalf("documents: %v", list)
	}
	return list
}

// TestSnippets: every block of Go in a document is compiled and tested, as it is part of a program
// or an example with a test.
func TestSnippets(t *testing.T) {
	sources(t) // skips the test without the source
	for _, d := range documents(t) {
		text, err := os.ReadFile(d)
		if err != nil {
			t.Fatal(err)
		}
		out, flaws := withSnippets(string(text))
		if *updateSnippets && out != string(text) {
			if err := os.WriteFile(d, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
			_, flaws = withSnippets(out)
		}
		for _, f := range flaws {
			t.Errorf("%s: %s", filepath.Base(d), f)
		}
	}
}
