package repocheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOtherModule builds a transport in a module of its own (uct/testdata/mailbox), and runs its
// tests: the conformance suite, and messages of package ucp. It checks that the exported packages
// suffice for a transport. The module gets the versions of this module, and nothing is downloaded.
func TestOtherModule(t *testing.T) {
	sources(t) // registers the files as inputs of this test with go test
	if testing.Short() {
		t.Skip("it builds a module")
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skipf("no go command here: %v", err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../uct/testdata/mailbox")); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"mod", "edit", "-replace", module + "=" + root},
		{"test", "-count=1", "-timeout=5m", "./..."},
	} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOPROXY=off", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
