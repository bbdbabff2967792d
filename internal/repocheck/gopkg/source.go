package gopkg

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
)

// source holds the parsed files. A file may belong to several packages: variants for tests, and
// builds for several systems.
type source struct {
	Fset  *token.FileSet
	files map[string]*ast.File // parsed files, by path
}

func newSource() source { return source{token.NewFileSet(), make(map[string]*ast.File)} }

// parse returns the files of a package.
func (src *source) parse(p *Package) (files []*ast.File, err error) {
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f := src.files[name]
		if f == nil {
			if f, err = parser.ParseFile(src.Fset, name, nil, parser.ParseComments|parser.SkipObjectResolution); err != nil {
				return nil, err
			}
			src.files[name] = f
		}
		files = append(files, f)
	}
	return files, nil
}
