package uct

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// TestFlagNames: every capability that attr.go declares has a distinct name, and bits without a
// name are printed as numbers.
func TestFlagNames(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "attr.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if id, ok := v.Type.(*ast.Ident); ok && id.Name == "IfaceFlags" {
				declared += len(v.Names)
			}
		}
		return true
	})
	seen := make(map[string]bool)
	last := IfaceFlags(0)
	for _, c := range ifaceFlagText {
		if c.flag <= last || seen[c.text] || c.flag.String() != c.text {
			t.Errorf("%#x is called %q", uint64(c.flag), c.flag)
		}
		seen[c.text], last = true, c.flag
	}
	if declared == 0 || len(ifaceFlagText) != declared {
		t.Errorf("%d names for %d capabilities", len(ifaceFlagText), declared)
	}
	for f, want := range map[IfaceFlags]string{
		0:                                     "none",
		IfacePutShort | IfaceAMBcopy:          "am bcopy, put short",
		IfaceAMShort | 1<<60:                  "am short, bits 0x1000000000000000",
		IfaceFlags(1<<11) | IfaceFlags(1<<12): "bits 0x1800",
	} {
		if got := f.String(); got != want {
			t.Errorf("%#x: %q, want %q", uint64(f), got, want)
		}
	}
}
