//go:build linux

package ucptest

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/needtest"
)

var update = flag.Bool("update", false, "write the traces of testdata anew instead of comparing with them")

// block is a part of a trace: comments, commands, and their output.
type block struct {
	head []string // comments and commands
	out  []string
}

// parseTrace splits a trace into blocks: lines of head, "----", lines of output, then an empty
// line. A block without commands has no output.
func parseTrace(text string) (list []block) {
	for part := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		head, out, _ := strings.Cut(part+"\n", "----\n")
		b := block{head: strings.Split(strings.TrimRight(head, "\n"), "\n")}
		if out = strings.TrimRight(out, "\n"); out != "" {
			b.out = strings.Split(out, "\n")
		}
		list = append(list, b)
	}
	return list
}

// commands returns the lines of the head that are not comments.
func (b *block) commands() []string {
	return slices.DeleteFunc(slices.Clone(b.head), func(l string) bool { return l == "" || strings.HasPrefix(l, "#") })
}

func (b *block) write(to *strings.Builder) {
	lines := slices.Clone(b.head)
	if len(b.commands()) > 0 {
		lines = append(append(lines, "----"), b.out...)
	}
	to.WriteString(strings.Join(lines, "\n") + "\n")
}

// traces returns the files with traces.
func traces(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	return files
}

// TestTraces repeats each conversation and compares it with its trace.
func TestTraces(t *testing.T) {
	needtest.Goroutines(t)
	for _, file := range traces(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(text), "# ") {
				t.Error("the file does not begin with what it tells")
			}
			got := replay(t, string(text))
			if got == string(text) {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := strings.Split(string(text), "\n")
			t.Errorf("the conversation has changed (-want +got); if that is meant, run the test with -update:\n%s",
				cmp.Diff(want, strings.Split(got, "\n")))
		})
	}
}

// replay runs the commands of a trace and returns the trace with their output.
func replay(t *testing.T, text string) string {
	c := &conversation{t: t}
	defer c.end()
	var b strings.Builder
	for i, part := range parseTrace(text) {
		if i > 0 {
			b.WriteString("\n")
		}
		c.out = nil
		for _, line := range part.commands() {
			c.command(line)
		}
		part.out = c.out
		part.write(&b)
	}
	return b.String()
}
