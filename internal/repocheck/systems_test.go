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

// linuxOnly are the packages whose subject is Linux. Each of their files says so in its
// first line, but doc.go, for which the package can be imported, empty, and be read
// about anywhere. All others are there on all systems.
var linuxOnly = []string{
	"cmd/devinfo", "cmd/ib_perftest", "cmd/internal/ibtool", "cmd/internal/perfoob", "cmd/internal/pingpong", "cmd/rc_pingpong", "cmd/rdmasim",
	"cmd/rping", "cmd/srq_pingpong", "cmd/uc_pingpong", "cmd/ucx_perftest", "cmd/ud_pingpong", "internal/ib/ucm", "internal/ib/uverbs",
	"internal/rdmatest", "internal/rocedump", "internal/sockdiag", "interop", "ucp/ucptest", "uct/ib/...", "uct/internal/host", "uct/shm/...", "uct/tcp/...",
}

// suffixed are the ends that names of files have for another reason, so that they cannot
// end in _linux too.
var suffixed = []string{"_unsafe.go", "_device_test.go"}

// wants reports whether a file is built on a system, as its constraint says; its name
// is not looked at.
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

// systemsOf says what is wrong with the systems that a file is for.
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

// TestSystems wants to be seen what is there on which systems: by the name of a package
// or of a file.
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

// TestCompiles: the module and its tests compile for others than this.
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
