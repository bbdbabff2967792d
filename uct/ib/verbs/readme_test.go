//go:build linux

package verbs_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadme: what README.md shows is the example that is compiled and run.
func TestReadme(t *testing.T) {
	readme := must(os.ReadFile("../../../README.md"))(t)
	example := must(os.ReadFile("example_test.go"))(t)
	_, body, ok := strings.Cut(string(example), "func Example() {\n")
	body, _, found := strings.Cut(body, "\t// Output:")
	body = strings.ReplaceAll("\n"+body, "\n\t", "\n")
	if !ok || !found || strings.Count(body, "\n") > 60 || !strings.Contains(string(readme), "```go"+body+"```\n") {
		t.Errorf("README.md lacks, or has otherwise, these lines:\n%s", body)
	}
}
