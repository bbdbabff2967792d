//go:build linux

package ucptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/proto"
)

// silent are the protocols that a tap cannot name, as they give the transport nothing to call back.
// They are recognized by their messages.
var silent = map[string]proto.AMID{
	"atomic reply":   proto.IDAtomicRep,
	"connect":        proto.IDWireup,
	"rma completion": proto.IDCmpl,
}

// TestTracesComplete checks that every message and every protocol of package ucp occurs in a trace.
func TestTracesComplete(t *testing.T) {
	var all strings.Builder
	for _, file := range traces(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range parseTrace(string(text)) {
			all.WriteString(strings.Join(b.out, "\n") + "\n")
		}
	}
	for id := range proto.IDLast {
		if id.Known() && !strings.Contains(all.String(), " "+id.String()+" ") {
			t.Errorf("no trace has a message %v", id)
		}
	}
	names := protocolNames(t)
	for _, name := range names {
		if id, ok := silent[name]; ok {
			if !strings.Contains(all.String(), " "+id.String()+" ") {
				t.Errorf("no trace has protocol %q, that is %v", name, id)
			}
			continue
		}
		// Protocols that several kinds of messages share have the kind as a prefix: "tag rndv".
		word := `([a-z]+ )?` + regexp.QuoteMeta(name)
		if !regexp.MustCompile(`(?m)\(` + word + `\)$|: ` + word + `$`).MatchString(all.String()) {
			t.Errorf("no trace has protocol %q", name)
		}
	}
	for name := range silent {
		if !slices.Contains(names, name) {
			t.Errorf("there is no protocol %q", name)
		}
	}
}

// protocolNames returns the names of all protocols, taken from the source: the values of type
// protocolInfo in package ucp.
func protocolNames(t *testing.T) (list []string) {
	t.Helper()
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if id, ok := lit.Type.(*ast.Ident); !ok || id.Name != "protocolInfo" {
				return true
			}
			for _, e := range lit.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				if key, ok := kv.Key.(*ast.Ident); !ok || key.Name != "name" {
					continue
				}
				value, ok := kv.Value.(*ast.BasicLit)
				if !ok {
					t.Errorf("%s: the name of a protocol is not a constant", file)
					continue
				}
				name, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, name)
			}
			return true
		})
	}
	if len(list) < 20 {
		t.Fatalf("only %d protocols found in the source", len(list))
	}
	return list
}
