package apicheck

import (
	"flag"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/repocheck/gopkg"
)

const module = "github.com/ucx-go/ucx/"

var update = flag.Bool("update", false, "write the lists in testdata anew")

// public loads the packages that users can import, by their names within the module, except those
// whose package comment says that they carry no promise.
func public(t *testing.T) map[string]*types.Package {
	t.Helper()
	if _, err := os.Stat("../../go.mod"); err != nil {
		t.Skipf("the module's source is not here: %v", err)
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("no go command here: %v", err)
	}
	set, err := gopkg.Load("../..", "./...")
	if err != nil {
		t.Fatal(err)
	}
	list := make(map[string]*types.Package)
	for _, p := range set.Packages {
		name := strings.TrimPrefix(p.ImportPath, module)
		if p.Name == "main" || slices.Contains(strings.Split(name, "/"), "internal") {
			continue
		}
		// Parsing the files also registers them as inputs of this test with the cache of go test.
		files, err := set.Parse(p)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(files, unpromised) {
			continue
		}
		if list[name], err = set.Import(p.ImportPath); err != nil {
			t.Fatal(err)
		}
	}
	if len(list) < 10 {
		t.Fatalf("only %d packages", len(list))
	}
	return list
}

func unpromised(f *ast.File) bool {
	return strings.Contains(strings.Join(strings.Fields(f.Doc.Text()), " "), "carries no promise")
}

// golden returns the file with the list of a package.
func golden(name string) string {
	return filepath.Join("testdata", strings.ReplaceAll(name, "/", "-")+".txt")
}

// TestAPI compares what each package exports with the recorded list. A package without exports has
// no file.
func TestAPI(t *testing.T) {
	packages := public(t)
	left, err := fs.Glob(os.DirFS("."), "testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name, pkg := range packages {
		file := golden(name)
		left = slices.DeleteFunc(left, func(f string) bool { return f == file })
		lines := List(pkg)
		if *update {
			write(t, file, lines)
		}
		if diff := cmp.Diff(read(t, file), lines); diff != "" {
			t.Errorf("%s exports something else than %s says (-then +now):\n%s", name, file, diff)
		}
	}
	for _, file := range left {
		if *update {
			if err := os.Remove(file); err != nil {
				t.Error(err)
			}
			continue
		}
		t.Errorf("%s is of no package that users can import", file)
	}
	if t.Failed() {
		t.Log("where the change is meant: go test ./internal/apicheck -update, and say it in CHANGELOG.md")
	}
}

func write(t *testing.T, file string, lines []string) {
	t.Helper()
	if len(lines) == 0 {
		os.Remove(file)
		return
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// speaks lists, for each package, the packages whose types may occur in its API. A user of the
// package has to know those as well, and their compatibility becomes part of its own.
var speaks = map[string][]string{
	"ucp":           {"context", "crypto/tls", "io", "log/slog", "net/netip", "time", "ucs"},
	"uct":           {"context", "crypto/tls", "net/netip", "time", "ucs", "ucs/config", "ucs/event", "ucs/log"},
	"ucs":           {},
	"ucs/config":    {"io", "time"},
	"ucs/event":     {"context", "time"},
	"ucs/log":       {"log/slog", "go.uber.org/zap", "go.uber.org/zap/zapcore"},
	"uct/tcp":       {"crypto/tls", "net/netip", "ucs", "uct"},
	"uct/ib/verbs":  {"context", "net/netip"},
	"uct/ib/rdmacm": {"context", "net/netip", "syscall", "time", "uct/ib/verbs"},
}

// offenders are existing violations. The list may only get shorter.
var offenders = []string{
	"ucp: Config.WriteInfo has a type of ucs/config",
}

func TestSpeaks(t *testing.T) {
	packages := public(t)
	var found []string
	for name, allowed := range speaks {
		pkg := packages[name]
		if pkg == nil {
			t.Errorf("no package %s", name)
			continue
		}
		for path, names := range Foreign(pkg) {
			path = strings.TrimPrefix(path, module)
			if slices.Contains(allowed, path) {
				continue
			}
			for _, n := range names {
				found = append(found, name+": "+n+" has a type of "+path)
			}
		}
	}
	for _, f := range found {
		if !slices.Contains(offenders, f) {
			t.Error(f)
		}
	}
	for _, o := range offenders {
		if !slices.Contains(found, o) {
			t.Errorf("no longer so, take it off the list: %s", o)
		}
	}
}

// shown are the packages that need no example, with the reason.
var shown = map[string]string{
	"ucs/log/logtest":          "a call in a test that has to fail",
	"uct/ib/ibtest":            "devices for tests of what is above uct/ib",
	"uct/ib/rdmacm/rdmacmtest": "the example of rdmacm runs on it",
	"uct/ib/ud/udsim":          "the simulated cluster, ucp/ucptest/simnet, is made of it",
	"uct/tcp":                  "registers itself; its one name is an error",
}

// TestExamples: every package that users import has an example, as users start by copying one.
func TestExamples(t *testing.T) {
	for name, pkg := range public(t) {
		if len(List(pkg)) == 0 {
			continue // only registers itself, or has only tests
		}
		files, err := filepath.Glob(filepath.Join("../..", name, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc Example")
		})
		switch reason := shown[name]; {
		case !found && reason == "":
			t.Errorf("%s has no Example", name)
		case found && reason != "":
			t.Errorf("%s has an Example: take it off the list", name)
		}
	}
}

// sample type-checks a package as if users imported it.
func sample(t *testing.T, path, text string, imports types.Importer) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "sample.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := (&types.Config{Importer: imports}).Check(path, fset, []*ast.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

type imports map[string]*types.Package

func (i imports) Import(path string) (*types.Package, error) { return i[path], nil }

const sampleText = `package sample

import (
	"example.com/internal/deep"
	"example.com/other"
)

const (
	Typed   Number = 3
	Untyped        = 1 << 4
	Text           = "a long text that is not cut off anywhere, however long it may become in the end, or is it"
	hidden         = 1
)

type Number uint8

var Err, other_ error

type Struct struct {
	A, b int
	C    other.T
	D    []*deep.Deep
	// Hidden has a type that users cannot name.
	Hidden map[string]deep.Hidden
	embedded
	Shown
}

func (Struct) Value()                         {}
func (*Struct) Pointer(x int) (y []*other.T)  { return nil }
func (*Struct) quiet()                        {}

type embedded struct{}

func (*embedded) Promoted(other.T) {}

type Shown struct{}

func (Shown) Own() {}

type Interface interface {
	Do(f func(*Struct) error)
	private()
}

type Pair[K comparable, V any] struct{ Key K }

func (p *Pair[K, V]) Swap() Pair[K, V] { return *p }

func Map[E any](list ...E) map[string]E { return nil }

type Deep = deep.Deep

type Other = other.T
`

func samplePackage(t *testing.T) *types.Package {
	known := imports{
		"example.com/internal/deep": sample(t, "example.com/internal/deep",
			"package deep\ntype Hidden int\ntype Deep struct{ X int; y int }\nfunc (Deep) Depth() Deep { panic(0) }", importer.Default()),
		"example.com/other": sample(t, "example.com/other", "package other\ntype T struct{}\nfunc (T) M() {}", importer.Default()),
	}
	return sample(t, "example.com/sample", sampleText, known)
}

func TestList(t *testing.T) {
	want := strings.Split(strings.TrimSpace(`
type Deep = deep.Deep
	field X int
	… more fields
	method (Deep) Depth() Deep
var Err error
type Interface interface
	method Do(f func(*Struct) error)
	… more methods: only this package implements it
func Map[E any](list ...E) map[string]E
type Number uint8
type Other = other.T
type Pair[K comparable, V any] struct
	field Key K
	method (*Pair) Swap() Pair[K, V]
type Shown struct
	method (Shown) Own()
type Struct struct
	field A int
	field C other.T
	field D []*Deep
	field Hidden map[string]deep.Hidden
	embeds Shown
	… more fields
	method (*Struct) Pointer(x int) (y []*other.T)
	method (*Struct) Promoted(other.T)
	method (Struct) Value()
const Text = "a long text that is not cut off anywhere, however long it may become in the end, or is it"
const Typed Number = 3
const Untyped = 16
`), "\n")
	if diff := cmp.Diff(want, List(samplePackage(t))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestForeign(t *testing.T) {
	want := map[string][]string{
		"example.com/internal/deep": {"Struct.Hidden"},
		"example.com/other":         {"Other", "Struct.C", "Struct.Pointer", "Struct.Promoted"},
	}
	if diff := cmp.Diff(want, Foreign(samplePackage(t))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
