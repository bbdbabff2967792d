package doccheck

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// cNames maps the names in the public headers of C UCX 1.22 to their kinds. A field is TYPE.FIELD,
// where TYPE is the typedef without _t. Masks of valid fields are left out: the document says once
// that Go has none.
type cNames map[string]string

func readCNames(t *testing.T) cNames {
	t.Helper()
	text, err := os.ReadFile("testdata/c-names.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := make(cNames)
	for line := range strings.Lines(string(text)) {
		kind, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			t.Fatalf("testdata/c-names.txt: %q", line)
		}
		if of, field, ok := strings.Cut(name, "."); ok {
			name = strings.TrimSuffix(of, "_t") + "." + field
		}
		names[name] = kind
	}
	if len(names) < 1000 {
		t.Fatalf("only %d names", len(names))
	}
	return names
}

var cName = regexp.MustCompile(`^\.?(?:uc[pts]|UC[PTS]|[a-z])\w*(?:\.\w+)*\*?`)

// cell returns the names of C in a cell of the column C, fields with their types, and the quotes
// that are not names of C.
func (names cNames) cell(cell string) (found, bad []string) {
	of := ""
	for _, quote := range quotes(cell) {
		name := cName.FindString(quote)
		switch {
		case name == "":
			bad = append(bad, quote)
			continue
		case name[0] == '.':
			name = of + name
		default:
			of = strings.TrimSuffix(name, "_t")
		}
		if names.known(name) {
			found = append(found, name)
		} else {
			bad = append(bad, quote)
		}
	}
	return found, bad
}

func (names cNames) known(name string) bool {
	if !strings.HasSuffix(name, "*") {
		return names[name] != ""
	}
	for n := range names {
		if matches(name, n) {
			return true
		}
	}
	return false
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// TestCNames: every name of C is in the column C. A pattern covers enumerators, macros and types; a
// typedef covers the tag of its struct or enumeration.
func TestCNames(t *testing.T) {
	names := readCNames(t)
	told := make(map[string]bool)
	var patterns []string
	for _, r := range read(t, fromC).rows {
		found, bad := names.cell(r.c)
		for _, quote := range bad {
			t.Errorf("%s:%d: C UCX has no %s", fromC, r.line, quote)
		}
		for _, name := range found {
			told[name] = true
			if strings.HasSuffix(name, "*") {
				patterns = append(patterns, name)
			}
		}
	}
	for name, kind := range names {
		if !told[name] && !told[name+"_t"] && (kind == "func" || kind == "field" || !anyMatches(patterns, name)) {
			t.Errorf("%s does not tell of the %s %s", fromC, kind, name)
		}
	}
}

func anyMatches(patterns []string, name string) bool {
	for _, p := range patterns {
		if matches(p, name) {
			return true
		}
	}
	return false
}
