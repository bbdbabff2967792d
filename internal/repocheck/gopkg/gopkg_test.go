package gopkg

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module writes a module and returns its directory.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.24\n"
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestImports: the imports of a package are resolved, of the module and of others, whether or not
// the imported package was loaded, and even if it does not compile.
func TestImports(t *testing.T) {
	files := map[string]string{
		"a/a.go": "package a\n\nimport \"example.com/m/b\"\n\nfunc f() { b.Held.Load().M(); b.Used() }\n",
		"b/b.go": "package b\n\nimport \"sync/atomic\"\n\ntype T struct{}\n\nfunc (*T) M() {}\n\nvar Held atomic.Pointer[T]\n\n" +
			"func Used() { missing() }\n",
	}
	for _, pattern := range []string{"./a", "./..."} {
		set, err := Load(module(t, files), pattern)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(set.Packages, func(p Package) bool { return p.Name == "a" })
		if i < 0 || (len(set.Packages) == 1) != (pattern == "./a") {
			t.Fatalf("%s: %v", pattern, set.Packages)
		}
		_, pkg, info, err := set.Check(set.Packages[i])
		if err != nil {
			t.Fatal(err)
		}
		var used []string
		for _, o := range info.Uses {
			if o.Pkg() != nil && o.Pkg() != pkg {
				used = append(used, o.Pkg().Path()+" "+ObjectName(o))
			}
		}
		slices.Sort(used)
		want := []string{"example.com/m/b (*T).M", "example.com/m/b Held", "example.com/m/b Used", "sync/atomic (*Pointer).Load"}
		if !slices.Equal(used, want) {
			t.Errorf("%s: uses %q, want %q", pattern, used, want)
		}
		again, err := set.Import("example.com/m/a")
		if err != nil || again != pkg {
			t.Errorf("%s: imported as %v, %v; checked as %v", pattern, again, err, pkg)
		}
	}
}

func TestImportsItself(t *testing.T) {
	set, err := Load(module(t, map[string]string{
		"a/a.go": "package a\n\nimport \"example.com/m/b\"\n\nvar A = b.B\n",
		"b/b.go": "package b\n\nimport \"example.com/m/a\"\n\nvar B = a.A\n",
	}), "./...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range set.Packages {
		if _, pkg, _, err := set.Check(p); err != nil || pkg == nil {
			t.Errorf("%s: %v, %v", p.ImportPath, pkg, err)
		}
	}
}

func TestDoesNotParse(t *testing.T) {
	set, err := Load(module(t, map[string]string{
		"a/a.go": "package a\n\nfunc\n",
		"b/b.go": "package b\n\nimport _ \"example.com/m/a\"\n",
	}), "./...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range set.Packages {
		if _, _, _, err := set.Check(p); (err != nil) != (p.Name == "a") {
			t.Errorf("%s: %v", p.ImportPath, err)
		}
	}
	if _, err := set.Import("example.com/m/a"); err == nil || !strings.Contains(err.Error(), "a.go") {
		t.Errorf("imported: %v", err)
	}
}
