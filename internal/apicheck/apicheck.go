// Package apicheck lists the exported API of the packages of this module: every exported name with
// its type, one on a line, so that a change of the API shows as a change of a text. Its test
// compares the lists with testdata; scripts/lint runs it.
//
//	go test ./internal/apicheck -update     after an intended change
package apicheck

import (
	"fmt"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// List returns the exported names of a package, sorted by name: constants with their values,
// variables, functions, types with their exported fields and methods. Types of other packages carry
// the package's name. An exported alias of a type of an internal package is listed with the fields
// and methods of that type, and stands for that type in the rest of the list.
func List(pkg *types.Package) []string {
	l := lister{pkg: pkg, own: ownNames(pkg)}
	for _, name := range pkg.Scope().Names() { // they are sorted
		if token.IsExported(name) {
			l.object(pkg.Scope().Lookup(name))
		}
	}
	return l.lines
}

type lister struct {
	pkg   *types.Package
	own   map[string]string
	lines []string
}

// ownNames maps types of internal packages, by path and name, to the package's exported aliases of
// them.
func ownNames(pkg *types.Package) map[string]string {
	own := make(map[string]string)
	for _, name := range pkg.Scope().Names() {
		o, ok := pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok || !o.Exported() || !o.IsAlias() {
			continue
		}
		if named, ok := types.Unalias(o.Type()).(*types.Named); ok && internal(named.Obj().Pkg()) {
			own[named.Obj().Pkg().Path()+"."+named.Obj().Name()] = name
		}
	}
	return own
}

// namedType is a type with the path of its package, as types.TypeString prints it.
var namedType = regexp.MustCompile(`[\w/~-]+(?:\.[\w/~-]+)*\.\w+`)

func (l *lister) printf(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// text returns a type as importers of the package write it.
func (l *lister) text(t types.Type) string {
	packages := make(map[string]*types.Package)
	full := types.TypeString(t, func(p *types.Package) string {
		if p == l.pkg {
			return ""
		}
		packages[p.Path()] = p
		return p.Path()
	})
	return namedType.ReplaceAllStringFunc(full, func(s string) string {
		if name, ok := l.own[s]; ok {
			return name
		}
		dot := strings.LastIndexByte(s, '.')
		if p := packages[s[:dot]]; p != nil {
			return p.Name() + s[dot:]
		}
		return s
	})
}

// signature returns a function's type without the word func.
func (l *lister) signature(f *types.Func) string {
	return strings.TrimPrefix(l.text(f.Signature()), "func")
}

func (l *lister) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		value := o.Val().ExactString()
		if basic, ok := o.Type().(*types.Basic); ok && basic.Info()&types.IsUntyped != 0 {
			l.printf("const %s = %s", o.Name(), value)
			break
		}
		l.printf("const %s %s = %s", o.Name(), l.text(o.Type()), value)
	case *types.Var:
		l.printf("var %s %s", o.Name(), l.text(o.Type()))
	case *types.Func:
		l.printf("func %s%s", o.Name(), l.signature(o))
	case *types.TypeName:
		l.typeName(o)
	}
}

func (l *lister) typeName(o *types.TypeName) {
	if o.IsAlias() {
		target := types.Unalias(o.Type())
		l.printf("type %s = %s", o.Name(), types.TypeString(target, (*types.Package).Name))
		if named, ok := target.(*types.Named); ok && internal(named.Obj().Pkg()) {
			l.members(o.Name(), named)
		}
		return
	}
	named := o.Type().(*types.Named)
	parameters := ""
	if list := named.TypeParams(); list.Len() > 0 {
		var all []string
		for p := range list.TypeParams() {
			all = append(all, p.Obj().Name()+" "+l.text(p.Constraint()))
		}
		parameters = "[" + strings.Join(all, ", ") + "]"
	}
	kind := ""
	switch u := named.Underlying().(type) {
	case *types.Struct:
		kind = "struct"
	case *types.Interface:
		kind = "interface"
	default:
		kind = l.text(u)
	}
	l.printf("type %s%s %s", o.Name(), parameters, kind)
	l.members(o.Name(), named)
}

// internal reports whether other modules cannot import a package.
func internal(p *types.Package) bool {
	return p != nil && slices.Contains(strings.Split(p.Path(), "/"), "internal")
}

// members lists a type's exported fields and methods under a name.
func (l *lister) members(name string, named *types.Named) {
	switch u := named.Underlying().(type) {
	case *types.Struct:
		hidden := false
		for f := range u.Fields() {
			switch {
			case !f.Exported():
				hidden = true
			case f.Embedded():
				l.printf("\tembeds %s", l.text(f.Type()))
			default:
				l.printf("\tfield %s %s", f.Name(), l.text(f.Type()))
			}
		}
		if hidden {
			l.printf("\t… more fields")
		}
	case *types.Interface:
		hidden := false
		for m := range u.Methods() {
			if m.Exported() {
				l.printf("\tmethod %s%s", m.Name(), l.signature(m))
			} else {
				hidden = true
			}
		}
		if hidden {
			l.printf("\t… more methods: only this package implements it")
		}
		return
	}
	// The method set of the pointer has all methods; the receiver shows whether values have them
	// too.
	values := types.NewMethodSet(named)
	for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		f := m.Obj().(*types.Func)
		if !f.Exported() || byEmbedding(named, m) {
			continue
		}
		receiver := "(*" + name + ")"
		if values.Lookup(f.Pkg(), f.Name()) != nil {
			receiver = "(" + name + ")"
		}
		l.printf("\tmethod %s %s%s", receiver, f.Name(), l.signature(f))
	}
}

// byEmbedding reports whether a method comes from an exported embedded type, which is listed
// itself.
func byEmbedding(named *types.Named, m *types.Selection) bool {
	if len(m.Index()) == 1 {
		return false
	}
	return named.Underlying().(*types.Struct).Field(m.Index()[0]).Exported()
}

// Foreign returns the other packages whose types appear in the exported API of a package, each with
// the names that use them: a field or method as Type.Name. Types of internal packages for which the
// package has an alias count as its own.
func Foreign(pkg *types.Package) map[string][]string {
	foreign := make(map[string][]string)
	own := ownNames(pkg)
	note := func(name string, t types.Type) {
		packages := make(map[string]bool)
		full := types.TypeString(t, func(p *types.Package) string {
			packages[p.Path()] = p != pkg
			return p.Path()
		})
		for _, s := range namedType.FindAllString(full, -1) {
			path := s[:strings.LastIndexByte(s, '.')]
			if packages[path] && own[s] == "" && !slices.Contains(foreign[path], name) {
				foreign[path] = append(foreign[path], name)
			}
		}
	}
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		named, ok := types.Unalias(o.Type()).(*types.Named)
		if tn, isType := o.(*types.TypeName); !ok || !isType || tn.IsAlias() {
			note(name, types.Unalias(o.Type()))
			continue
		}
		switch u := named.Underlying().(type) {
		case *types.Struct:
			for f := range u.Fields() {
				if f.Exported() {
					note(name+"."+f.Name(), f.Type())
				}
			}
		case *types.Interface:
			for m := range u.Methods() {
				if m.Exported() {
					note(name+"."+m.Name(), m.Type())
				}
			}
			continue
		default:
			note(name, u)
		}
		for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
			if m.Obj().Exported() && !byEmbedding(named, m) {
				note(name+"."+m.Obj().Name(), m.Type())
			}
		}
	}
	return foreign
}
