//go:build linux && (amd64 || arm64)

package oracle_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The provider is compiled once, with all mutants in it, of which a program is the one
// that its environment names: the body of a function becomes a choice among what it was
// and what each mutant makes of it. A variable is set to what its mutant makes of it when
// the program begins.

// chosenEnv has the number of the mutant that a program is: 0 is none of them.
const chosenEnv = "MLX5_MUTANT"

// chosenFile is added to the provider.
const chosenFile = `package mlx5

import (
	"os"
	"strconv"
)

var chosenMutant, _ = strconv.Atoi(os.Getenv("` + chosenEnv + `"))
`

// place is what an edit may lie in: the body of a function, or a variable's value.
type place struct {
	from, to int    // in the file
	variable string // empty for a body
}

// places are those of a file, in their order.
func places(name, text string) (list []place, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(n ast.Node, variable string) {
		list = append(list, place{set.Position(n.Pos()).Offset, set.Position(n.End()).Offset, variable})
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil {
				add(d.Body, "")
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR && len(v.Names) == len(v.Values) {
					for i := range v.Values {
						add(v.Values[i], v.Names[i].Name)
					}
				}
			}
		}
	}
	return list, nil
}

// variant is what a mutant makes of a place.
type variant struct {
	number int
	text   string
}

// schema is the text of a file with its mutants in it; their numbers are those in the
// list, from 1 on.
func schema(name, text string, list []mutant) (string, error) {
	all, err := places(name, text)
	if err != nil {
		return "", err
	}
	variants := make([][]variant, len(all))
	for i, m := range list {
		if m.file != name {
			continue
		}
		for _, e := range m.edits {
			if n := strings.Count(text, e[0]); n != 1 {
				return "", fmt.Errorf("%q is in %s %d times", e[0], name, n)
			}
			at := strings.Index(text, e[0])
			k := slices.IndexFunc(all, func(p place) bool { return p.from <= at && at+len(e[0]) <= p.to })
			if k < 0 {
				return "", fmt.Errorf("%q is neither in the body of a function of %s nor in the value of a variable", e[0], name)
			}
			v := variants[k]
			if len(v) == 0 || v[len(v)-1].number != i+1 {
				v = append(v, variant{i + 1, text[all[k].from:all[k].to]})
			}
			last := &v[len(v)-1]
			last.text = strings.Replace(last.text, e[0], e[1], 1)
			variants[k] = v
		}
	}
	for k, p := range slices.Backward(all) { // the offsets of those in front stay
		if len(variants[k]) == 0 {
			continue
		}
		if p.variable == "" {
			text = text[:p.from] + chooseBody(variants[k], text[p.from:p.to]) + text[p.to:]
		} else {
			text += chooseValue(variants[k], p.variable)
		}
	}
	return text, nil
}

// chooseBody is a body that is one of several. What it was comes last, as default: where
// each returns, so does the choice.
func chooseBody(list []variant, was string) string {
	var b strings.Builder
	b.WriteString("{\nswitch chosenMutant {\n")
	for _, v := range list {
		fmt.Fprintf(&b, "case %d:\n%s\n", v.number, v.text)
	}
	fmt.Fprintf(&b, "default:\n%s\n}\n}", was)
	return b.String()
}

// chooseValue sets a variable to another value.
func chooseValue(list []variant, variable string) string {
	var b strings.Builder
	b.WriteString("\nfunc init() {\nswitch chosenMutant {\n")
	for _, v := range list {
		fmt.Fprintf(&b, "case %d:\n%s = %s\n", v.number, variable, v.text)
	}
	b.WriteString("}\n}\n")
	return b.String()
}

// overlay writes the provider's files with all mutants in them, and returns the file that
// has the compiler take them.
func overlay(t *testing.T) string {
	t.Helper()
	provider, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"chosen_mutant.go": chosenFile}
	for _, m := range mutants {
		if texts[m.file] != "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(provider, m.file))
		if err != nil {
			t.Fatal(err)
		}
		if texts[m.file], err = schema(m.file, string(text), mutants); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	write := func(name, text string) (file string) {
		file = filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	instead := make(map[string]string)
	for name, text := range texts {
		instead[filepath.Join(provider, name)] = write(name, text)
	}
	list, err := json.Marshal(map[string]any{"Replace": instead})
	if err != nil {
		t.Fatal(err)
	}
	return write("overlay.json", string(list))
}
