// Package filegraph measures how the files of a package lean on each other: an
// arrow runs from one file to another where a function, a method or the
// initial value of a package variable in the first uses a function, a method or
// a package variable of the second. Types, fields and constants make no arrow:
// data may be known everywhere, it is calls that make a reader jump.
//
// Files that reach each other along arrows must be read together; the largest
// such set is the package's knot. A package without cycles has a knot of 0.
//
// A table that names the functions of many files pulls all of them into the
// knot of whoever reads the table, as the calls go through it. It does not where
// its reader declares it empty and a file that nobody calls fills it at
// initialization: then the reader really knows none of them.
package filegraph

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"

	"github.com/ucx-go/ucx/internal/repocheck/gopkg"
)

// Graph is the graph of one package's files, without its tests.
type Graph struct {
	Path  string   // of the package
	Files []string // their names, sorted

	arrows map[pair]map[Use]bool
}

type pair struct{ from, to string }

// Use is one reason for an arrow.
type Use struct {
	From string // the function, method or variable that uses
	To   string // the one that is used
	Line int    // where it is used first, in the file of From
}

// Arrow says that a file uses another, and why.
type Arrow struct {
	From, To string
	Uses     []Use // in the order of the file
}

// newGraph reads the arrows out of a package that has been checked.
func newGraph(path string, fset *token.FileSet, files []*ast.File, pkg *types.Package, info *types.Info) *Graph {
	g := &Graph{Path: path, arrows: make(map[pair]map[Use]bool)}
	for _, f := range files {
		name := fileName(fset, f.Package)
		g.Files = append(g.Files, name)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Body != nil { // else it is written in assembly
					g.add(fset, pkg, info, name, gopkg.FuncName(d), d.Body)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR {
						for i, value := range v.Values {
							g.add(fset, pkg, info, name, v.Names[i].Name, value)
						}
					}
				}
			}
		}
	}
	slices.Sort(g.Files)
	return g
}

// add makes the arrows of what one name of a file is made of.
func (g *Graph) add(fset *token.FileSet, pkg *types.Package, info *types.Info, file, name string, node ast.Node) {
	first := make(map[string]bool)
	ast.Inspect(node, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		used := info.Uses[id]
		if used == nil || used.Pkg() != pkg || !counts(used) {
			return true
		}
		to := fileName(fset, used.Pos())
		if to == file || to == "" {
			return true
		}
		key := pair{file, to}
		if g.arrows[key] == nil {
			g.arrows[key] = make(map[Use]bool)
		}
		if use := gopkg.ObjectName(used); !first[to+use] {
			first[to+use] = true
			g.arrows[key][Use{name, use, fset.Position(id.Pos()).Line}] = true
		}
		return true
	})
}

// counts reports whether the use of an object is a call or as good as one. The
// methods of an interface belong to a type: who answers the call is not known.
func counts(o types.Object) bool {
	switch o := o.(type) {
	case *types.Func:
		recv := o.Signature().Recv()
		return recv == nil || !types.IsInterface(recv.Type())
	case *types.Var:
		return o.Parent() == o.Pkg().Scope()
	}
	return false
}

func fileName(fset *token.FileSet, pos token.Pos) string {
	if !pos.IsValid() {
		return ""
	}
	return filepath.Base(fset.Position(pos).Filename)
}

// Arrow returns the arrow between two files; without uses there is none.
func (g *Graph) Arrow(from, to string) Arrow {
	uses := slices.Collect(maps.Keys(g.arrows[pair{from, to}]))
	slices.SortFunc(uses, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.To, b.To))
	})
	return Arrow{from, to, uses}
}

// Inside returns the arrows between the given files, sorted.
func (g *Graph) Inside(files []string) []Arrow {
	var list []Arrow
	for _, from := range files {
		for _, to := range files {
			if a := g.Arrow(from, to); len(a.Uses) > 0 {
				list = append(list, a)
			}
		}
	}
	return list
}

// Linked returns the files that have an arrow, sorted.
func (g *Graph) Linked() []string {
	set := make(map[string]bool)
	for p := range g.arrows {
		set[p.from], set[p.to] = true, true
	}
	return slices.Sorted(maps.Keys(set))
}

// Mutual returns the pairs of files with arrows both ways, sorted.
func (g *Graph) Mutual() [][2]string {
	var list [][2]string
	for p := range g.arrows {
		if p.from < p.to && g.arrows[pair{p.to, p.from}] != nil {
			list = append(list, [2]string{p.from, p.to})
		}
	}
	slices.SortFunc(list, func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	return list
}

// Knots returns the sets of files that reach each other, the largest first.
func (g *Graph) Knots() [][]string {
	// A file's set is what it reaches and is reached from; packages are small
	// enough to ask for each.
	next := make(map[string][]string)
	for p := range g.arrows {
		next[p.from] = append(next[p.from], p.to)
	}
	reach := make(map[string]map[string]bool)
	for _, f := range g.Files {
		seen := make(map[string]bool)
		for todo := slices.Clone(next[f]); len(todo) > 0; {
			n := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if !seen[n] {
				seen[n] = true
				todo = append(todo, next[n]...)
			}
		}
		reach[f] = seen
	}
	var knots [][]string
	done := make(map[string]bool)
	for _, f := range g.Files {
		if done[f] || !reach[f][f] {
			continue
		}
		var knot []string
		for _, other := range g.Files {
			if reach[f][other] && reach[other][f] {
				knot = append(knot, other)
				done[other] = true
			}
		}
		knots = append(knots, knot)
	}
	slices.SortStableFunc(knots, func(a, b []string) int { return cmp.Compare(len(b), len(a)) })
	return knots
}

// Knot returns the largest of Knots, or nil.
func (g *Graph) Knot() []string {
	if knots := g.Knots(); len(knots) > 0 {
		return knots[0]
	}
	return nil
}

// Without returns the graph as it would be without an arrow.
func (g *Graph) Without(a Arrow) *Graph {
	rest := maps.Clone(g.arrows)
	delete(rest, pair{a.From, a.To})
	return &Graph{g.Path, g.Files, rest}
}

func (g *Graph) String() string {
	return fmt.Sprintf("%s: %d files, %d arrows, knot %d of %d, %d mutual pairs",
		g.Path, len(g.Files), len(g.arrows), len(g.Knot()), len(g.Linked()), len(g.Mutual()))
}
