package sys

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{0, 1, 1023, 1024, 1025, 10_000} {
		path := filepath.Join(dir, "file")
		want := bytes.Repeat([]byte{'x', 'y', 'z'}, n)[:n]
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v, want %d", len(got), err, n)
		}
	}
	for path, cause := range map[string]string{filepath.Join(dir, "none"): "open", dir: "read"} {
		_, err := ReadFile(path)
		_, want := os.ReadFile(path)
		var e *fs.PathError
		if !errors.As(err, &e) || e.Op != cause || err.Error() != want.Error() {
			t.Errorf("%v, want %v", err, want)
		}
	}
}
