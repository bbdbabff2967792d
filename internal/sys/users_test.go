package sys

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMapsAllUsers(t *testing.T) {
	dir := t.TempDir()
	if MapsAllUsers(dir) {
		t.Error("without a map")
	}
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": true,
		"         0       1000          1\n": false,
		"0 100000 65536\n":                   false,
		"0 1000 1\n1 100000 65536\n":         false,
		"0 0 1000\n1000 100000 4294966295\n": false,
		"":                                   false,
	} {
		if err := os.WriteFile(filepath.Join(dir, "uid_map"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := MapsAllUsers(dir); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
