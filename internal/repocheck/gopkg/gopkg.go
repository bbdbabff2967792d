// Package gopkg loads packages of a module for the checks of this repository, with their syntax and
// types (go/types).
//
// It does not compile the module, which would take most of the time after every change: it
// type-checks the module's packages from source, each once, and reads only their imports of other
// modules from the compiler's export data.
package gopkg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Package is the description of a package by `go list`.
type Package struct {
	ImportPath string
	Name       string
	Doc        string // the first sentence of its comment
	Dir        string
	GoFiles    []string // without test files and files for other systems
	Imports    []string
	DepOnly    bool              // not requested, but imported by a requested package
	Export     string            // the file with the compiler's export data
	ImportMap  map[string]string // import paths in the source that differ from the path of the package
	Module     *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// Set is the set of requested packages. One goroutine uses it.
type Set struct {
	Packages []Package
	source
	module map[string]*checked // packages of the module, by path
	others types.Importer
}

// checked is a package of the module, which is type-checked when it is first needed.
type checked struct {
	Package
	started bool
	files   []*ast.File
	pkg     *types.Package // nil while it is being checked
	info    *types.Info
	err     error
}

// Load finds the packages that the patterns name, as `go list` in dir interprets them.
func Load(dir string, patterns ...string) (*Set, error) {
	list, stderr, err := goList(dir, "ImportPath,Name,Doc,Dir,GoFiles,Imports,DepOnly,Module", append([]string{"-deps", "--"}, patterns...))
	if err != nil {
		return nil, err
	}
	s := &Set{source: newSource(), module: make(map[string]*checked)}
	others := make(map[string]bool)
	for _, p := range list {
		if p.Module == nil || !p.Module.Main {
			continue
		}
		s.module[p.ImportPath] = &checked{Package: p}
		for _, path := range p.Imports {
			others[path] = true
		}
		if !p.DepOnly && len(p.GoFiles) > 0 {
			s.Packages = append(s.Packages, p)
		}
	}
	if len(s.Packages) == 0 {
		return nil, fmt.Errorf("no Go packages: %s", stderr)
	}
	maps.DeleteFunc(others, func(path string, _ bool) bool { return s.module[path] != nil })
	exports, err := exportsOf(dir, slices.Sorted(maps.Keys(others)))
	if err != nil {
		return nil, err
	}
	s.others = importer.ForCompiler(s.Fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s has not been compiled", path)
		}
		return os.Open(exports[path])
	})
	return s, nil
}

// exportsOf returns the files with the export data of packages and of all their dependencies, by
// path.
func exportsOf(dir string, paths []string) (map[string]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	list, _, err := goList(dir, "ImportPath,Export", append([]string{"-deps", "-export", "--"}, paths...))
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string)
	for _, p := range list {
		exports[p.ImportPath] = p.Export
	}
	return exports, nil
}

// goList runs `go list` in dir, with env added to the environment, and returns its stderr too.
func goList(dir, fields string, args []string, env ...string) (list []Package, stderr []byte, err error) {
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=" + fields}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...) // results must not depend on a C compiler
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w\n%s", err, complaints.Bytes())
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list, complaints.Bytes(), nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("go list: %w", err)
		}
		list = append(list, p)
	}
}

// Import returns a type-checked package. A package that was not requested may have nothing more
// than its exported names. Import implements types.Importer.
func (s *Set) Import(path string) (*types.Package, error) {
	p := s.module[path]
	if p == nil {
		return s.others.Import(path)
	}
	s.check(p)
	if p.pkg == nil && p.err == nil {
		return nil, fmt.Errorf("%s imports itself", path)
	}
	return p.pkg, p.err
}

// Parse returns the files of a package.
func (s *Set) Parse(p Package) ([]*ast.File, error) {
	c := s.module[p.ImportPath]
	if c.files != nil {
		return c.files, nil
	}
	files, err := s.parse(&c.Package)
	if err != nil {
		return nil, err
	}
	c.files = files
	return files, nil
}

// Check parses and type-checks a package. For code that does not compile it returns as much as
// possible.
func (s *Set) Check(p Package) ([]*ast.File, *types.Package, *types.Info, error) {
	c := s.module[p.ImportPath]
	s.check(c)
	return c.files, c.pkg, c.info, c.err
}

func (s *Set) check(p *checked) {
	if p.started {
		return
	}
	p.started = true
	if _, p.err = s.Parse(p.Package); p.err != nil {
		return
	}
	p.info = &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{
		Importer:         s,
		IgnoreFuncBodies: p.DepOnly,
		Error:            func(error) {}, // the compiler reports them
	}
	p.pkg, _ = conf.Check(p.ImportPath, s.Fset, p.files, p.info)
}

// FuncName returns the name of a function as Go prints it, without package and type parameters: f,
// T.f or (*T).f.
func FuncName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	return receiver(types.ExprString(d.Recv.List[0].Type)) + "." + d.Name.Name
}

// ObjectName returns the name of a function or variable in the form of FuncName.
func ObjectName(o types.Object) string {
	f, ok := o.(*types.Func)
	if !ok || f.Signature().Recv() == nil {
		return o.Name()
	}
	t := types.TypeString(f.Signature().Recv().Type(), func(*types.Package) string { return "" })
	return receiver(t) + "." + f.Name()
}

func receiver(t string) string {
	t, _, _ = strings.Cut(t, "[")
	if pointer, ok := strings.CutPrefix(t, "*"); ok {
		return "(*" + pointer + ")"
	}
	return t
}
