package doccheck

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/apicheck"
)

// exports are the exported names of the packages: pkg.Name, and pkg.Type.Member for fields and
// methods, from the lists of package apicheck.
type exports map[string]bool

func readExports(t *testing.T) exports {
	t.Helper()
	names, err := apicheck.Names("../apicheck/testdata")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d names, %v", len(names), err)
	}
	return names
}

// resolve returns the full name for a quote in a document: a name of package ucp, with or without
// the package; a name of another package; or .Member of the type that the cell has named last. It
// also returns the type for the next quote.
func (e exports) resolve(quote, of string) (name, next string, ok bool) {
	switch parts := strings.Split(quote, "."); {
	case parts[0] == "":
		name = of + quote
		return name, of, e[name]
	case e["ucp."+quote]:
		name = "ucp." + quote
	case e[quote]:
		name = quote
	default:
		return "", of, false
	}
	parts := strings.Split(name, ".")
	return name, strings.Join(parts[:2], "."), true
}

// words are quotes in the column Go that are not names.
var words = map[string]bool{
	"nil": true, "(nil, nil)": true, "[]byte": true, "error": true, "any": true, "string": true,
	"int": true, "0": true, "true": true, "false": true, "errors.Is": true, "context.Context": true,
	"io.Writer": true, "netip.AddrPort": true, "func": true, "time.Duration": true, "[][]byte": true,
}

// TestGoNames: every name in the column Go is exported.
func TestGoNames(t *testing.T) {
	known := readExports(t)
	for _, r := range read(t, fromC).rows {
		of := ""
		for _, quote := range quotes(r.goCell) {
			if words[quote] || strings.HasPrefix(quote, "UCX_") {
				continue
			}
			var ok bool
			if _, of, ok = known.resolve(quote, of); !ok {
				t.Errorf("%s:%d: no package exports %s", fromC, r.line, quote)
			}
		}
	}
}

// notTold are patterns of names of package ucp that need not be in the document.
var notTold = []struct{ pattern, reason string }{
	{"*.String", "prints, as everywhere in Go"},
	{"*.Error", "is that of an error"},
	{"*.Unwrap", "is that of an error"},
	{"Stats.*", "a counter; its meaning is beside it"},
	{"PeerStats.*", "a counter; its meaning is beside it"},
	{"CallbackPanic.*", "told with its type"},
	{"EpollTarget.*", "told with its type"},
	{"PeerInfo.*", "told with its type"},
	{"PeerUser.*", "told with its type"},
	{"Explanation.*", "a part of Endpoint.Explain's report"},
	{"Lane*", "a part of Endpoint.Explain's report"},
	{"Protocol*", "a part of Endpoint.Explain's report"},
	{"RejectedProtocol*", "a part of Endpoint.Explain's report"},
}

func untold(name string) bool {
	return slices.ContainsFunc(notTold, func(n struct{ pattern, reason string }) bool {
		ok, err := path.Match(n.pattern, name)
		return ok && err == nil
	})
}

// TestGoNamesTold: every exported name of package ucp is in the document.
func TestGoNamesTold(t *testing.T) {
	known, d := readExports(t), read(t, fromC)
	told := make(map[string]bool)
	tell := func(quote, of string) (next string) {
		name, next, _ := known.resolve(quote, of)
		told[name] = true
		return next
	}
	for _, quote := range d.quoted {
		tell(quote, "")
	}
	for _, r := range d.rows {
		of := ""
		for _, quote := range quotes(r.goCell) {
			of = tell(quote, of)
		}
	}
	for _, name := range sorted(known) {
		if own, ok := strings.CutPrefix(name, "ucp."); ok && !told[name] && !untold(own) {
			t.Errorf("%s does not tell of %s", fromC, own)
		}
	}
}

func sorted(names map[string]bool) []string {
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
