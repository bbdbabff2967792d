//go:build linux

package ib

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAbsent checks that without devices the error names the kernel modules that provide them, and
// that with devices which programs cannot open it names the missing module.
func TestAbsent(t *testing.T) {
	root := t.TempDir()
	for _, step := range []struct{ dir, want string }{
		{"class", "rdma_rxe"},
		{"class/infiniband/rxe0", "device rxe0: the kernel's module ib_uverbs"},
	} {
		if err := os.MkdirAll(filepath.Join(root, step.dir), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := absent(root); err == nil || !strings.Contains(err.Error(), step.want) {
			t.Errorf("%s: %v, want %s", step.dir, err, step.want)
		}
	}
}
