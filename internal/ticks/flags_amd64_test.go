package ticks

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHasFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpuinfo")
	text := "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\nbugs\t\t: x\n\nprocessor\t: 1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		file  string
		flags []string
		want  bool
	}{
		{"all", file, []string{"constant_tsc", "nonstop_tsc"}, true},
		{"one missing", file, []string{"constant_tsc", "tsc_reliable"}, false},
		{"no part of a word", file, []string{"stop_tsc"}, false},
		{"no file", file + ".none", []string{"tsc"}, false},
	}
	for _, tt := range tests {
		if got := hasFlags(tt.file, tt.flags...); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestIsClock(t *testing.T) {
	for text, want := range map[string]bool{"tsc\n": true, "kvm-clock\n": false, "tsc-early\n": false, "": false} {
		file := filepath.Join(t.TempDir(), "current_clocksource")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := isClock(file); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if isClock(filepath.Join(t.TempDir(), "none")) {
		t.Error("a file that is not there")
	}
}
