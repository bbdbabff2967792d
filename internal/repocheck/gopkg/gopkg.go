// Package gopkg loads packages of a module for the checks of this repository:
// their source as go/types sees it, and what the compiler tells importers.
package gopkg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Package is what `go list` says about a package.
type Package struct {
	ImportPath string
	Name       string
	Doc        string // the first sentence of its comment
	Dir        string
	GoFiles    []string // without tests and what is for other systems
	Export     string   // the file with what the compiler tells importers
	DepOnly    bool     // imported by a package that was asked for
}

// Set is the packages that were asked for. What they import is read from what the
// compiler has left in the build cache.
type Set struct {
	Packages []Package
	Fset     *token.FileSet
	importer types.Importer
}

// Load finds the packages that the patterns name, as `go list` in dir understands
// them.
func Load(dir string, patterns ...string) (*Set, error) {
	args := []string{"list", "-e", "-deps", "-export", "-json=ImportPath,Name,Doc,Dir,Export,GoFiles,DepOnly", "--"}
	cmd := exec.Command("go", append(args, patterns...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // what is found does not depend on a C compiler
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	s := &Set{Fset: token.NewFileSet()}
	exports := make(map[string]string)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && len(p.GoFiles) > 0 {
			s.Packages = append(s.Packages, p)
		}
	}
	if len(s.Packages) == 0 {
		return nil, fmt.Errorf("no Go packages: %s", stderr.Bytes())
	}
	s.importer = importer.ForCompiler(s.Fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s has not been compiled", path)
		}
		return os.Open(exports[path])
	})
	return s, nil
}

// Import returns a package as its importers see it.
func (s *Set) Import(path string) (*types.Package, error) { return s.importer.Import(path) }

// Parse returns the files of a package.
func (s *Set) Parse(p Package) ([]*ast.File, error) {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(s.Fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// Check parses a package and finds what its names mean. Code that does not compile
// gives what can be seen all the same.
func (s *Set) Check(p Package) ([]*ast.File, *types.Package, *types.Info, error) {
	files, err := s.Parse(p)
	if err != nil {
		return nil, nil, nil, err
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{
		Importer: s.importer,
		Error:    func(error) {}, // the compiler's business
	}
	pkg, _ := conf.Check(p.ImportPath, s.Fset, files, info)
	return files, pkg, info, nil
}

// FuncName is a function as Go prints it, without package and type parameters:
// f, T.f or (*T).f.
func FuncName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	return receiver(types.ExprString(d.Recv.List[0].Type)) + "." + d.Name.Name
}

// ObjectName is a function or variable in the same form.
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
