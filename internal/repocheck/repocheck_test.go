package repocheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/ucx-go/ucx"

// source is one Go file of the module, for any system.
type source struct {
	name    string // relative to the module's root, with slashes
	fset    *token.FileSet
	file    *ast.File
	imports []string
}

func (s *source) dir() string  { return path.Dir(s.name) }
func (s *source) test() bool   { return strings.HasSuffix(s.name, "_test.go") }
func (s *source) unsafe() bool { return strings.HasSuffix(s.name, "_unsafe.go") }

// sources returns all Go files of the module.
func sources(t *testing.T) []*source {
	t.Helper()
	if _, err := os.Stat("../../go.mod"); err != nil {
		t.Skipf("the module's source is not here: %v", err)
	}
	list, err := parseModule()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 {
		t.Fatalf("only %d Go files found", len(list))
	}
	return list
}

// parseModule parses all Go files of the module, once for all tests, which do not modify them.
var parseModule = sync.OnceValues(func() ([]*source, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	var list []*source
	fset := token.NewFileSet()
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if d.IsDir() && p != root {
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
				return fs.SkipDir // another module
			}
		}
		if d.IsDir() || filepath.Ext(p) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		s := &source{name: filepath.ToSlash(rel), fset: fset, file: f}
		for _, imp := range f.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, name)
		}
		list = append(list, s)
		return nil
	})
	return list, err
})

// TestPackageComments: each package has one comment, with more than the name, in the form that
// tools show.
func TestPackageComments(t *testing.T) {
	comments := make(map[string]int)
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		comments[s.dir()] += 0
		if s.file.Doc == nil {
			continue
		}
		comments[s.dir()]++
		want := "Package " + s.file.Name.Name + " "
		text := s.file.Doc.Text()
		if s.file.Name.Name == "main" {
			// "Command name does" or "Name does".
			want = path.Base(s.dir()) + " "
			text = strings.TrimPrefix(text, "Command ")
			text = strings.ToLower(text[:1]) + text[1:]
		}
		if !strings.HasPrefix(text, want) || len(text) < len(want)+20 {
			t.Errorf("%s: the comment is %.60q, want %q and what it is for", s.name, text, want)
		}
	}
	for dir, n := range comments {
		if n != 1 {
			t.Errorf("package %s has %d comments, want 1", dir, n)
		}
	}
}

// TestUnsafe: only files named *_unsafe.go import unsafe; they all do, and a comment says why the
// use is sound.
func TestUnsafe(t *testing.T) {
	for _, s := range sources(t) {
		uses := slices.Contains(s.imports, "unsafe")
		switch {
		case uses && !s.unsafe() && !s.test():
			t.Errorf("%s imports unsafe; only files named *_unsafe.go may", s.name)
		case !uses && s.unsafe():
			t.Errorf("%s does not import unsafe", s.name)
		case uses && s.unsafe() && !explained(s.file):
			t.Errorf("%s does not begin with the invariant that makes it sound", s.name)
		}
	}
}

// explained reports whether there is a comment between the package clause and the imports.
func explained(f *ast.File) bool {
	return slices.ContainsFunc(f.Comments, func(c *ast.CommentGroup) bool {
		return c.Pos() > f.Name.End() && c.End() < f.Decls[0].Pos()
	})
}

func TestNoCgo(t *testing.T) {
	for _, s := range sources(t) {
		if slices.Contains(s.imports, "C") {
			t.Errorf("%s imports C", s.name)
		}
	}
}

// layers lists which other parts of the module each part may import, and why. The first entry whose
// pattern matches a folder applies. A trailing /... includes subfolders. Tests may import what they
// need, but those of ucs and uct import nothing above.
var layers = []struct {
	dir     string
	imports []string
	why     string
}{
	{"ucs/...", []string{"ucs/..."}, "the lowest part that users see"},
	{"uct/ucttest/...", []string{"ucs/...", "uct", "uct/ucttest/...", "uct/kit", "uct/internal/connkit", "internal/needtest"},
		"it tests every transport, and is one itself, built of the same parts"},
	{"uct/internal/...", []string{"ucs/...", "uct", "uct/internal/..."}, "what transports share is above the contract, and below all of them"},
	{"uct/kit", []string{"ucs/...", "uct", "uct/internal/..."}, "what transports share, for those of other modules too"},
	{"uct/self", []string{"ucs/...", "uct", "uct/kit"}, "it is the example of a transport, which those of other modules can follow"},
	{"uct", []string{"ucs/..."}, "the contract knows neither transports nor protocols"},
	{"uct/ib/verbs/...", []string{"ucs/...", "uct/ib/internal/...", "uct/ib/verbs/..."}, "verbs are usable without UCX, over the kernel's interface alone"},
	{"uct/ib/rdmacm/...", []string{"ucs/...", "uct/ib/internal/...", "uct/ib/verbs/...", "uct/ib/rdmacm/..."},
		"the connection manager is usable without UCX; it makes queue pairs, which are of verbs"},
	{"proto/...", []string{"ucs/...", "uct", "proto/..."}, "wire formats and choices are functions of values; capability flags and costs are the contract's"},
	{"ucp/internal/engine", []string{"ucp/internal/..."}, "who runs a worker does not depend on what is communicated"},
	{"ucp/internal/transports", []string{"uct/...", "ucs/..."}, "one package registers all transports"},
	{"ucp/internal/...", []string{"ucs/...", "uct", "proto/...", "ucp/internal/..."}, "the machines below the engine know no Worker"},
	{"ucp", []string{"ucs/...", "uct", "proto/...", "ucp/internal/..."}, "the engine reaches transports through the contract alone"},
	{"ucpnet", []string{"ucs/...", "ucp"}, "it is built like any program, of the public API"},
	{"uct/ib/internal/handles", []string{"uct/ib/verbs"}, "address handles are of a device, whoever uses them"},
	{"uct/ib/internal/memory", []string{"ucs/...", "uct", "uct/ib/verbs"}, "registered memory is of a device, whoever sends it"},
	{"uct/ib/internal/events", []string{"ucs/...", "uct", "uct/ib/verbs"}, "events are of a device, and wake workers"},
	{"uct/ib/internal/rigtest", []string{"ucs/...", "uct", "uct/ib/...", "uct/ucttest", "internal/needtest", "internal/rdmatest"},
		"it is what the tests of transports over RDMA devices share"},
	{"uct/ib/internal/...", []string{"ucs/...", "uct/ib/internal/..."}, "the kernel's interface knows nothing of what it is used for"},
	{"internal/rdmatest", []string{"ucs/...", "uct/ib/verbs"}, "tests make devices through verbs"},
	{"internal/...", []string{"ucs/...", "internal/..."}, "services carry the words of ucs, and no more"},
}

// services are the internal packages that every layer may use, and what for.
var services = map[string]string{
	"internal/arena":     "memory that devices and other processes see",
	"internal/cpu":       "cache lines, pauses, barriers",
	"internal/fault":     "faults of memory that another process can shrink",
	"internal/gid":       "which goroutine calls",
	"internal/ledger":    "counts of what peers make a process hold",
	"internal/platform":  "clock, random numbers and goroutines, which a simulation replaces",
	"internal/netlink":   "addresses, routes and neighbors",
	"internal/race":      "hand-overs that the race detector does not see",
	"internal/sockdiag":  "which process has the other end of a socket",
	"internal/statuserr": "errors of the kernel with a status",
	"internal/sys":       "system calls",
	"internal/topo":      "processors and devices near each other",
	"internal/word":      "numbers in bytes",
}

// TestLayers: imports go downwards only: from programs to ucp, to proto and each transport by
// itself, to uct, to ucs.
func TestLayers(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		for _, imp := range s.imports {
			to, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			if !allowed(s.dir(), to) {
				t.Errorf("%s imports %s", s.name, to)
			}
		}
	}
}

// kernelInterface are the packages of uct/ib below verbs and rdmacm.
var kernelInterface = map[string]bool{
	"uct/ib/internal/abi": true, "uct/ib/internal/cmabi": true, "uct/ib/internal/ucm": true, "uct/ib/internal/uverbs": true,
}

// allowed reports whether a package in one folder may import the other.
func allowed(from, to string) bool {
	if services[to] != "" {
		return from != "uct/self" // self is an example without internal packages
	}
	if isTransport(from) && from != "uct/self" {
		// A transport may import itself and the shared packages, but no other transport. The
		// transports of uct/ib use the kernel only through verbs and rdmacm.
		if from == "uct/ib/ud/udsim" && to == "uct/ucttest/sim" {
			return true // it puts the flow of ud on the simulated network
		}
		own := strings.Join(strings.Split(from, "/")[:2], "/") + "/..."
		return within(to, "ucs/...") || to == "uct" || to == "uct/kit" || within(to, "uct/internal/...") ||
			within(to, own) && !kernelInterface[to] && !within(to, "uct/ib/cmd/...")
	}
	for _, l := range layers {
		if within(from, l.dir) {
			return slices.ContainsFunc(l.imports, func(pattern string) bool { return within(to, pattern) })
		}
	}
	return true // programs and their helpers
}

// isTransport reports whether a folder belongs to a transport.
func isTransport(dir string) bool {
	rest, ok := strings.CutPrefix(dir, "uct/")
	return ok && !within(dir, "uct/ucttest/...") && !within(dir, "uct/internal/...") && dir != "uct/kit" &&
		!within(dir, "uct/ib/verbs/...") && !within(dir, "uct/ib/rdmacm/...") && !within(dir, "uct/ib/internal/...") &&
		!within(dir, "uct/ib/cmd/...") && rest != ""
}

// within reports whether a folder matches a pattern.
func within(dir, pattern string) bool {
	prefix, all := strings.CutSuffix(pattern, "/...")
	return dir == prefix || all && strings.HasPrefix(dir, prefix+"/")
}

func TestAllowed(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		want     bool
	}{
		{"ucs/config", "ucs/log", true},
		{"ucs/event", "internal/sys", true},
		{"proto", "internal/word", true},
		{"ucp", "internal/vm", false},
		{"ucs/event", "uct", false},
		{"uct", "ucs/event", true},
		{"uct", "uct/tcp", false},
		{"uct", "proto", false},
		{"uct/tcp", "uct", true},
		{"uct/tcp", "uct/internal/host", true},
		{"uct/tcp", "uct/kit", true},
		{"uct/kit", "uct/internal/host", true},
		{"uct/kit", "uct/self", false},
		{"uct/self", "uct/kit", true},
		{"uct/self", "uct/internal/host", false},
		{"uct/self", "internal/word", false},
		{"uct/tcp", "uct/tcp/wire", true},
		{"uct/tcp/wire", "uct/tcp", true},
		{"uct/tcp", "uct/self", false},
		{"uct/tcp", "proto", false},
		{"uct/ib", "uct/ib/verbs", true},
		{"uct/ib/verbs", "uct", false},
		{"uct/ib/verbs", "uct/ib/internal/uverbs", true},
		{"uct/ib/rdmacm", "uct/ib/internal/ucm", true},
		{"uct/ib/internal/ucm", "uct/ib/internal/cmabi", true},
		{"uct/ib/internal/uverbs", "uct/ib/verbs", false},
		{"uct/ib", "uct/ib/internal/abi", false},
		{"ucp", "uct/ib/internal/abi", false},
		{"uct/ib", "uct/ib/rdmacm", true},
		{"uct/ib/rdmacm", "uct/ib/verbs", true},
		{"uct/ib/verbs", "uct/ib/rdmacm", false},
		{"uct/ucttest", "uct/tcp", false},
		{"proto", "uct", true},
		{"proto", "uct/tcp", false},
		{"proto", "ucp", false},
		{"ucp", "proto", true},
		{"ucp", "internal/getopt", false},
		{"ucpnet", "ucp", true},
		{"ucpnet", "uct", false},
		{"cmd/ucx_info", "ucp", true},
		{"uct/ib/cmd/devinfo", "internal/getopt", true},
		{"uct/ib/rc", "internal/getopt", false},
	} {
		if got := allowed(tc.from, tc.to); got != tc.want {
			t.Errorf("%s may import %s: %v", tc.from, tc.to, got)
		}
	}
	for dir, want := range map[string]bool{
		"uct/tcp": true, "uct/tcp/wire": true, "uct/ib": true,
		"uct": false, "uct/ucttest": false, "uct/internal/host": false, "uct/kit": false, "uct/ib/verbs": false, "uct/ib/rdmacm": false, "ucp": false,
	} {
		if isTransport(dir) != want {
			t.Errorf("%s is a transport: %v", dir, !want)
		}
	}
}
