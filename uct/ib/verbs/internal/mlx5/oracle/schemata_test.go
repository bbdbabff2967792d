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

// The provider is compiled once with all mutants in it, and an environment variable selects one of
// them: the body of a function becomes a choice between the original and the variants of the
// mutants. A variable is set to the value of its mutant when the program starts.

// chosenEnv names the variable with the number of the mutant: 0 is the original.
const chosenEnv = "MLX5_MUTANT"

// chosenFile is added to the provider.
const chosenFile = `package mlx5

import (
	"os"
	"strconv"
)

var chosenMutant, _ = strconv.Atoi(os.Getenv("` + chosenEnv + `"))
`

// place is where an edit is possible: the body of a function, or the value of a variable.
type place struct {
	from, to int    // offsets in the file
	variable string // empty for a body
}

// places returns the places of a file, in order.
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

// variant is a mutant's version of a place.
type variant struct {
	number int
	text   string
}

// schema returns the text of a file with its mutants in it. Their numbers are those in the list,
// from 1 on.
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
	for k, p := range slices.Backward(all) { // keeps the offsets before it valid
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

// chooseBody returns a body that chooses one of several. The original comes last, as default, so
// that the choice returns if each variant does.
func chooseBody(list []variant, was string) string {
	var b strings.Builder
	b.WriteString("{\nswitch chosenMutant {\n")
	for _, v := range list {
		fmt.Fprintf(&b, "case %d:\n%s\n", v.number, v.text)
	}
	fmt.Fprintf(&b, "default:\n%s\n}\n}", was)
	return b.String()
}

// chooseValue returns code that sets a variable to the value of a mutant.
func chooseValue(list []variant, variable string) string {
	var b strings.Builder
	b.WriteString("\nfunc init() {\nswitch chosenMutant {\n")
	for _, v := range list {
		fmt.Fprintf(&b, "case %d:\n%s = %s\n", v.number, variable, v.text)
	}
	b.WriteString("}\n}\n")
	return b.String()
}

// overlay writes the provider's files with all mutants in them, and returns the overlay file for
// the compiler.
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
