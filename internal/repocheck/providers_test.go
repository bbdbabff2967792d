package repocheck

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestProviders: a provider of verbs is its folder and one line that imports it; nothing else does.
// Its unsafe files are short accessors.
func TestProviders(t *testing.T) {
	const (
		folder = "uct/ib/verbs/internal/"
		lines  = "uct/ib/verbs/providers.go"
		most   = 60
	)
	importers := make(map[string][]string)
	for _, s := range sources(t) {
		for _, imp := range s.imports {
			name, ok := strings.CutPrefix(imp, module+"/"+folder)
			if ok && name != "provider" && !s.test() && s.dir() != folder+name {
				importers[name] = append(importers[name], s.name)
			}
		}
		if !strings.HasPrefix(s.name, folder) || !s.unsafe() {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(s.name)))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > most {
			t.Errorf("%s has %d lines: accessors have at most %d", s.name, n, most)
		}
	}
	if !slices.Equal(importers["rxe"], []string{lines}) {
		t.Errorf("rxe is imported by %v, not by one line of %s", importers["rxe"], lines)
	}
	for name, by := range importers {
		if !slices.Equal(by, []string{lines}) {
			t.Errorf("%s is imported by %v, not by one line of %s", name, by, lines)
		}
	}
}
