package filegraph

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
)

// listed is what `go list` says about a package.
type listed struct {
	ImportPath string
	Dir        string
	Export     string // the file with what the compiler tells importers
	GoFiles    []string
	DepOnly    bool
}

// Load returns the graphs of the packages that the patterns name, as `go list`
// in dir understands them. The packages are checked from source and what they
// import is read from what the compiler has left in the build cache. Code that
// does not compile gives the arrows that can be seen all the same.
func Load(dir string, patterns ...string) ([]*Graph, error) {
	args := []string{"list", "-e", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,DepOnly", "--"}
	cmd := exec.Command("go", append(args, patterns...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // what is measured does not depend on a C compiler
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	exports := make(map[string]string)
	var wanted []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && len(p.GoFiles) > 0 {
			wanted = append(wanted, p)
		}
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("no Go packages: %s", stderr.Bytes())
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s has not been compiled", path)
		}
		return os.Open(exports[path])
	})
	var graphs []*Graph
	for _, p := range wanted {
		g, err := check(p, fset, imports)
		if err != nil {
			return nil, err
		}
		graphs = append(graphs, g)
	}
	return graphs, nil
}

func check(p listed, fset *token.FileSet, imports types.Importer) (*Graph, error) {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{
		Importer: imports,
		Error:    func(error) {}, // the compiler's business
	}
	pkg, _ := conf.Check(p.ImportPath, fset, files, info)
	return newGraph(p.ImportPath, fset, files, pkg, info), nil
}
