package gopkg

import (
	"fmt"
	"strings"
	"testing"
)

// TestCompiles: compile errors are found on every system where they occur, including those with
// 32-bit integers, in both kinds of tests, and in packages that only tests import.
func TestCompiles(t *testing.T) {
	files := map[string]string{
		"a/a.go":            "package a\n\nfunc F() {}\n",
		"a/a_linux.go":      "package a\n\nimport \"syscall\"\n\nvar Gettid = syscall.Gettid\n",
		"a/a_test.go":       "package a\n\nimport \"testing\"\n\nfunc Hidden() {}\n\nfunc TestF(*testing.T) { F() }\n",
		"a/outside_test.go": "package a_test\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m/a\"\n)\n\nfunc TestG(*testing.T) { a.Hidden() }\n",
	}
	const all = "linux/amd64 linux/386 windows/amd64"
	cases := []struct {
		name, text string // of a file in a separate package
		broken     string // systems where it does not compile
	}{
		{"b.go", "package b\n", ""},
		{"b.go", "package b\n\nvar B int = \"\"\n", all},
		{"b.go", "package b\n\nfunc f() { missing() }\n", all},
		{"b.go", "package b\n\nfunc f(\n", all},
		{"b.go", "package b\n\nimport \"example.com/m/missing\"\n\nvar B = missing.B\n", all},
		{"b_windows.go", "package b\n\nimport \"syscall\"\n\nvar Gettid = syscall.Gettid\n", "windows/amd64"},
		{"b.go", "package b\n\nimport \"example.com/m/a\"\n\nvar B = a.Gettid\n", "windows/amd64"},
		{"b.go", "package b\n\nconst B int = 1 << 40\n", "linux/386"},
		{"b_test.go", "package b\n\nconst B int = 1 << 40\n", "linux/386"},
		{"b_test.go", "package b_test\n\nconst B int = 1 << 40\n", "linux/386"},
		{"b.go", "package b\n\nvar s = new(3)\n", all}, // not valid in this module's Go version
	}
	for i, c := range cases {
		files[fmt.Sprintf("b%d/%s", i, c.name)] = c.text
	}
	dir := module(t, files)
	for _, system := range strings.Fields(all) {
		text := Compiles(dir, system).Error()
		for i, c := range cases {
			if found := strings.Contains(text, fmt.Sprintf("b%d/", i)); found != strings.Contains(c.broken, system) {
				t.Errorf("%s: %s: %v\n%s", system, c.text, found, text)
			}
		}
		if strings.Contains(text, "a/") {
			t.Errorf("%s: %s", system, text)
		}
	}
	sound := module(t, map[string]string{"a/a.go": files["a/a.go"]})
	if err := Compiles(sound, "linux/amd64"); err != nil {
		t.Error(err)
	}
	if err := Compiles(sound, "linux/vax"); err == nil {
		t.Error("a system that is none")
	}
}

// TestErrors: of many errors only the first ones are reported.
func TestErrors(t *testing.T) {
	err := Compiles(module(t, map[string]string{"b/b.go": "package b\n" + strings.Repeat("var _ int = \"\"\n", 30)}), "linux/amd64")
	if err == nil {
		t.Fatal("none")
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != maxErrors+1 || lines[maxErrors] != "and 20 more" {
		t.Errorf("%q", lines)
	}
}
