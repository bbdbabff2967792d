package filegraph

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// load writes a module of one package and measures it.
func load(t *testing.T, files map[string]string) *Graph {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.24\n"
	for name, text := range files {
		if name != "go.mod" {
			text = "package m\n\n" + text
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	graphs, err := Load(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	if len(graphs) != 1 {
		t.Fatalf("%d packages", len(graphs))
	}
	return graphs[0]
}

// TestArrows tries each way in which a file can use another. The used file is
// the same in all: b.go.
func TestArrows(t *testing.T) {
	const used = `
import "sync/atomic"

type T struct{ field int }

func (t *T) pointer() int { return t.field }
func (t T) value()        {}

type G[E any] struct{ e E }

func (g *G[E]) get() E { return g.e }

type I interface{ called() }

const constant = 1

var variable int

var held atomic.Pointer[T]

func free() *T { return nil }

func generic[E any](e E) E { return e }
`
	for name, tc := range map[string]struct {
		text string
		want []Use
	}{
		"function":        {`func a() { free() }`, []Use{{"a", "free", 3}}},
		"as a value":      {`func a() any { return free }`, []Use{{"a", "free", 3}}},
		"generic":         {`func a() { generic(1) }`, []Use{{"a", "generic", 3}}},
		"variable":        {`func a() { variable++ }`, []Use{{"a", "variable", 3}}},
		"local variable":  {`func a(t *T) { x := t; x.value() }`, []Use{{"a", "T.value", 3}}},
		"method value":    {`func a(t *T) any { return t.pointer }`, []Use{{"a", "(*T).pointer", 3}}},
		"method of type":  {`func a() any { return (*T).pointer }`, []Use{{"a", "(*T).pointer", 3}}},
		"embedded":        {`type E struct{ *T }` + "\n" + `func (e E) a() { e.pointer() }`, []Use{{"E.a", "(*T).pointer", 4}}},
		"generic method":  {`func a(g *G[int]) int { return g.get() }`, []Use{{"a", "(*G).get", 3}}},
		"initial value":   {`var a = func() *T { return free() }`, []Use{{"a", "free", 3}}},
		"by another's":    {`func (t *T) a() { held.Load().value() }`, []Use{{"(*T).a", "T.value", 3}, {"(*T).a", "held", 3}}},
		"init":            {`func init() { variable = 1 }`, []Use{{"init", "variable", 3}}},
		"each once":       {`func a() { free(); free() }`, []Use{{"a", "free", 3}}},
		"type":            {`func a(t *T) *T { return new(T) }`, nil},
		"field":           {`func a(t *T) int { return t.field }`, nil},
		"constant":        {`func a() int { return constant }`, nil},
		"interface":       {`func a(i I) { i.called() }`, nil},
		"same file":       {`func a() { c() }` + "\n" + `func c() {}`, nil},
		"shadowed":        {`func a(free func()) { free() }`, nil},
		"does not check":  {`func a() { free(); missing() }`, []Use{{"a", "free", 3}}},
		"no body":         {`func a()`, nil},
		"several in one":  {`var a, b = 1, variable`, []Use{{"b", "variable", 3}}},
		"in a type's use": {`func a() { var x struct{ T }; x.value() }`, []Use{{"a", "T.value", 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := load(t, map[string]string{"a.go": tc.text, "b.go": used, "a_test.go": "func tested() { free() }"})
			if diff := cmp.Diff(tc.want, g.Arrow("a.go", "b.go").Uses); diff != "" {
				t.Errorf("uses (-want +got):\n%s", diff)
			}
			if back := g.Arrow("b.go", "a.go").Uses; back != nil {
				t.Errorf("back: %v", back)
			}
			if !slices.Equal(g.Files, []string{"a.go", "b.go"}) {
				t.Errorf("files %v", g.Files)
			}
		})
	}
}

func TestKnots(t *testing.T) {
	g := load(t, map[string]string{
		"a.go": "func a() { b() }",
		"b.go": "func b() { c(); d() }",
		"c.go": "func c() { a(); b(); leaf() }",
		"d.go": "func d() { e() }",
		"e.go": "func e() { d() }",
		"f.go": "func f() { a() }", // leads in
		"l.go": "func leaf() {}",
		"n.go": "type nobody int",
	})
	want := [][]string{{"a.go", "b.go", "c.go"}, {"d.go", "e.go"}}
	if diff := cmp.Diff(want, g.Knots()); diff != "" {
		t.Errorf("knots (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][2]string{{"b.go", "c.go"}, {"d.go", "e.go"}}, g.Mutual()); diff != "" {
		t.Errorf("mutual (-want +got):\n%s", diff)
	}
	if got, want := g.String(), "example.com/m: 8 files, 9 arrows, knot 3 of 7, 2 mutual pairs"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if knot := g.Without(g.Arrow("a.go", "b.go")).Knot(); len(knot) != 2 || len(g.Knot()) != 3 {
		t.Errorf("%v without an arrow, then %v", knot, g.Knot())
	}
	if n := len(g.Inside(want[0])); n != 4 {
		t.Errorf("%d arrows inside the knot, want 4", n)
	}
}

// TestTable: who reads a table uses all that is in it, unless a file that nobody
// uses fills it.
func TestTable(t *testing.T) {
	const run = "func run() { for _, f := range table { f() } }\n"
	direct := load(t, map[string]string{
		"engine.go": run, "table.go": "var table = []func(){one, two}",
		"one.go": "func one() { run() }", "two.go": "func two() { run() }",
	})
	if knot := direct.Knot(); len(knot) != 4 {
		t.Errorf("knot %v", knot)
	}
	filled := load(t, map[string]string{
		"engine.go": run + "var table []func()", "table.go": "func init() { table = []func(){one, two} }",
		"one.go": "func one() { run() }", "two.go": "func two() { run() }",
	})
	if knot := filled.Knot(); len(knot) != 0 {
		t.Errorf("knot %v", knot)
	}
}

func TestLoadNothing(t *testing.T) {
	if g, err := Load(t.TempDir(), "./..."); err == nil {
		t.Errorf("no error, %v", g)
	}
}
