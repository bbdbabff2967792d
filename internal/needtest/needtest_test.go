package needtest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// told is a test that is told something.
type told struct {
	testing.TB
	text string
}

func (t *told) Helper()                           {}
func (t *told) Skip(args ...any)                  { t.end("skip: " + fmt.Sprint(args...)) }
func (t *told) Fatalf(format string, args ...any) { t.end("fatal: " + fmt.Sprintf(format, args...)) }
func (t *told) end(text string)                   { t.text = text; runtime.Goexit() }

func TestMissing(t *testing.T) {
	defer func(s, r bool) { set, root = s, r }(set, root)
	const skip, fatal = "skip: missing: it", "fatal: missing although the set-up script has run: it"
	for _, c := range []struct {
		set, root   bool
		tool, right string
	}{
		{false, false, skip, skip},
		{false, true, skip, skip},
		{true, false, fatal, skip},
		{true, true, fatal, fatal},
	} {
		set, root = c.set, c.root
		for _, x := range []struct {
			call func(testing.TB, string)
			want string
		}{{Tool, c.tool}, {Right, c.right}} {
			at := new(told)
			done := make(chan struct{})
			go func() {
				defer close(done)
				x.call(at, "it")
			}()
			if <-done; at.text != x.want {
				t.Errorf("set up %v, root %v: %q, want %q", c.set, c.root, at.text, x.want)
			}
		}
	}
}

func TestWholeMachine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "uid_map")
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": true,
		"         0       1000          1\n": false,
		"0 100000 65536\n":                   false,
		"0 0 1000\n1000 100000 4294966295\n": false,
		"":                                   false,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := wholeMachine(file); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if wholeMachine(file + " that is not there") {
		t.Error("without a map")
	}
}
