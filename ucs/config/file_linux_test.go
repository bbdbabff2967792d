package config

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoFiles puts a directory and a FIFO at the places where Read looks for files.
func TestNoFiles(t *testing.T) {
	clean(t)
	if err := os.Mkdir(fileName, 0o755); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", fifo)
	for _, file := range []string{"", "/nowhere/at/all", fifo, "bad\x00name"} {
		if _, err := Read("", file); err != nil {
			t.Errorf("Read with file %q: %v", file, err)
		}
	}
}
