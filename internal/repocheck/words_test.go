package repocheck

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// retired are words that names in the source used to have, with the words that replace them. The
// old ones are figures of speech that only the authors understood; the new ones are the terms of
// the field, which docs/glossary.md explains.
var retired = map[string]string{
	"bill":        "charge",
	"chore":       "task",
	"crowd":       "largest group",
	"crowded":     "over the limit",
	"debt":        "overdraft",
	"doubt":       "validate source",
	"farewell":    "close notification",
	"fellow":      "sibling",
	"fellows":     "siblings",
	"greedy":      "largest",
	"hear":        "admit",
	"heard":       "received",
	"hears":       "admits",
	"hog":         "largest holder",
	"kin":         "related",
	"limbo":       "lingering",
	"nap":         "poll interval",
	"naps":        "sleeps",
	"patience":    "timeout",
	"patient":     "timeout",
	"payer":       "account",
	"roamer":      "migrated peer",
	"speak":       "send",
	"speaks":      "sends",
	"stranger":    "unknown source",
	"tells":       "reports",
	"told":        "notified",
	"untold":      "unseen",
	"wayback":     "reply route",
	"whereabouts": "location",
}

// wordsOf splits a name at capitals and underscores, and returns its words in lower case.
func wordsOf(name string) (words []string) {
	begin := 0
	add := func(end int) {
		if end > begin {
			words = append(words, strings.ToLower(name[begin:end]))
		}
		begin = end
	}
	var last rune
	for i, r := range name {
		switch {
		case r == '_':
			add(i)
			begin = i + 1
		case unicode.IsUpper(r) && !unicode.IsUpper(last):
			add(i)
		}
		last = r
	}
	add(len(name))
	return words
}

// Names in the source, except of tests, have no retired word.
func TestRetiredWords(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			for _, w := range wordsOf(id.Name) {
				if instead, ok := retired[w]; ok {
					t.Errorf("%s:%d: %s: names do not use the word %q any more, but %q", s.name, s.fset.Position(id.Pos()).Line, id.Name, w, instead)
				}
			}
			return true
		})
	}
}

func TestWordsOf(t *testing.T) {
	for name, want := range map[string][]string{
		"patience": {"patience"}, "epTold": {"ep", "told"}, "RDMA_CM_EVENT": {"rdma", "cm", "event"},
		"hasUUIDs": {"has", "uuids"}, "": nil, "_": nil, "x": {"x"}, "größeNeu": {"größe", "neu"},
	} {
		if got := wordsOf(name); !slices.Equal(got, want) {
			t.Errorf("%q has the words %q, want %q", name, got, want)
		}
	}
}
