package repocheck

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/repocheck/gopkg"
)

// linuxOnly are the packages that are only about Linux. Each of their files has a build constraint
// in its first line, except doc.go: it makes the package importable, and its comment readable, on
// every system. All other packages exist on all systems.
var linuxOnly = []string{
	"cmd/ucx_perftest/...", "internal/rdmatest", "internal/rocedump", "internal/sockdiag", "interop", "ucp/ucptest",
	"uct/ib/...", "uct/internal/host", "uct/shm/...", "uct/tcp/...",
}

// suffixed are suffixes of file names with another purpose; such a name cannot also end in _linux.
var suffixed = []string{"_unsafe.go", "_device_test.go"}

// wants reports whether the build constraint of a file includes a system. The name of the file is
// not considered.
func wants(f *ast.File, goos string) bool {
	for _, group := range f.Comments {
		if group.Pos() > f.Package {
			break
		}
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil {
				return expr.Eval(func(tag string) bool {
					return tag == goos || !slices.Contains([]string{"linux", "windows", "darwin"}, tag)
				}) ||
					expr.Eval(func(tag string) bool { return tag == goos })
			}
		}
	}
	return true
}

// systemsOf returns an error text if a file does not follow the rules for systems.
func systemsOf(file string, f *ast.File) string {
	base := path.Base(file)
	named := strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(base, ".go"), "_test"), "_linux")
	alone := !wants(f, "windows") && wants(f, "linux")
	if coveredBy(linuxOnly, file) != "" {
		switch {
		case base == "doc.go" && alone:
			return "a package comment can be read anywhere"
		case base != "doc.go" && !alone && !named:
			return "the package is for Linux only: //go:build linux"
		}
		return ""
	}
	if alone && !named && !slices.ContainsFunc(suffixed, func(end string) bool { return strings.HasSuffix(base, end) }) {
		return "what is for Linux only says so by the end of its name, _linux.go"
	}
	return ""
}

// TestSystems: the systems that a file is for can be seen from the name of its package or of the
// file.
func TestSystems(t *testing.T) {
	covered := make(map[string]bool)
	for _, s := range sources(t) {
		covered[coveredBy(linuxOnly, s.name)] = true
		if wrong := systemsOf(s.name, s.file); wrong != "" {
			t.Errorf("%s: %s", s.name, wrong)
		}
	}
	for _, p := range linuxOnly {
		if !covered[p] {
			t.Errorf("there is no %s", p)
		}
	}
}

// TestCompiles: the module and its tests compile for other systems.
func TestCompiles(t *testing.T) {
	if err := gopkg.Compiles("../..", "linux/386", "linux/arm64", "darwin/arm64", "windows/amd64", "js/wasm"); err != nil {
		t.Error(err)
	}
}

func TestSystemsOf(t *testing.T) {
	for _, tc := range []struct {
		file, tag string
		wrong     bool
	}{
		{"uct/tcp/conn.go", "linux", false},
		{"uct/tcp/conn.go", "linux && !amd64", false},
		{"uct/tcp/conn.go", "", true},
		{"uct/tcp/conn.go", "!amd64", true},
		{"uct/tcp/conn_linux.go", "", false},
		{"uct/tcp/doc.go", "", false},
		{"uct/tcp/doc.go", "linux", true},
		{"ucp/context.go", "", false},
		{"ucp/context.go", "linux", true},
		{"ucp/context_test.go", "linux", true},
		{"ucp/context_linux.go", "", false},
		{"ucp/context_linux_test.go", "", false},
		{"ucp/context_other.go", "!linux", false},
		{"ucp/context_unsafe.go", "linux", false},
		{"ucp/context.go", "amd64 || arm64", false},
	} {
		text := "package p\n"
		if tc.tag != "" {
			text = "//go:build " + tc.tag + "\n\n" + text
		}
		f, err := parser.ParseFile(token.NewFileSet(), "f.go", text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := systemsOf(tc.file, f); (wrong != "") != tc.wrong {
			t.Errorf("%s for %q: %q", tc.file, tc.tag, wrong)
		}
	}
}
