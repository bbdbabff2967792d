package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"testing"
)

// marked are the files that say which steps they make.
var marked = []string{
	"engine.go", "waiter.go", "sleep.go", "background.go",
	"../../owner.go", "../../call.go", "../../wait_leader.go", "../../wakeup.go", "../../worker.go",
	"../wakeset/wakeset.go",
}

var mark = regexp.MustCompile(`^// \[([a-z ]+)\]`)

// TestNames compares the steps of the code with those of the machine, by name and
// place.
func TestNames(t *testing.T) {
	type place struct{ file, function string }
	found := make(map[string]place)
	for _, name := range marked {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				if m := mark.FindStringSubmatch(c.Text); m != nil {
					at := place{filepath.Base(name), functionAt(set, f, c.Pos())}
					if was, ok := found[m[1]]; ok && was != at {
						t.Errorf("step %q is in %v and in %v", m[1], was, at)
					}
					found[m[1]] = at
				}
			}
		}
	}
	for s := range steps {
		want := where[s]
		at, ok := found[want.name]
		switch {
		case !ok:
			t.Errorf("the code does not say where it does %q (%s in %s)", want.name, want.function, want.file)
		case at != place{want.file, want.function}:
			t.Errorf("step %q is in %v, not in %s of %s", want.name, at, want.function, want.file)
		}
		delete(found, want.name)
	}
	for name, at := range found {
		t.Errorf("%v does %q, which the machine does not", at, name)
	}
}

// functionAt names the function on a line of which something is.
func functionAt(set *token.FileSet, f *ast.File, at token.Pos) string {
	line := set.Position(at).Line
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || line < set.Position(fn.Pos()).Line || line > set.Position(fn.End()).Line {
			continue
		}
		name := fn.Name.Name
		if fn.Recv == nil {
			return name
		}
		recv := fn.Recv.List[0].Type
		if star, ok := recv.(*ast.StarExpr); ok {
			recv = star.X
		}
		return recv.(*ast.Ident).Name + "." + name
	}
	return ""
}
