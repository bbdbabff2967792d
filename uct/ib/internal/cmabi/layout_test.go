//go:build linux

package cmabi

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/ucx-go/ucx/internal/needtest"
)

var headers = []string{"rdma_user_cm.h", "ib_user_sa.h", "ib_user_verbs.h"}

// dump compiles and runs a C program that prints the values of expressions, by name.
func dump(t *testing.T, values map[string]string) map[string]uint64 {
	t.Helper()
	missing := func(format string, args ...any) { needtest.Tool(t, fmt.Sprintf(format, args...)) }
	if _, err := exec.LookPath("gcc"); err != nil {
		missing("no C compiler: %v (apt-get install gcc)", err)
	}
	if _, err := os.Stat("/usr/include/rdma/rdma_user_cm.h"); err != nil {
		missing("no headers of the kernel: %v (apt-get install linux-libc-dev)", err)
	}
	var src bytes.Buffer
	src.WriteString("#include <stddef.h>\n#include <stdio.h>\n")
	for _, h := range headers {
		fmt.Fprintf(&src, "#include <rdma/%s>\n", h)
	}
	src.WriteString("int main(void)\n{\n")
	for name, expr := range values {
		fmt.Fprintf(&src, "\tprintf(\"%%s %%llu\\n\", %q, (unsigned long long)(%s));\n", name, expr)
	}
	src.WriteString("\treturn 0;\n}\n")
	exe := filepath.Join(t.TempDir(), "dump")
	cc := exec.Command("gcc", "-x", "c", "-o", exe, "-")
	cc.Stdin = &src
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	out, err := exec.Command(exe).Output()
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]uint64)
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		name, value, _ := strings.Cut(line, " ")
		if m[name], err = strconv.ParseUint(value, 10, 64); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
	}
	return m
}

// snake returns the C name of a Go name.
func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

var all = []any{
	CmdHdr{}, CreateId{}, CreateIdResp{}, DestroyId{}, DestroyIdResp{}, Bind{}, ResolveAddr{}, ResolveRoute{}, Query{},
	QueryAddrResp{}, UserPathRec{}, QueryRouteResp{}, ConnParam{}, UdParam{}, Ece{}, Connect{}, Listen{}, Accept{}, Reject{},
	Disconnect{}, InitQpAttr{}, QpAttr{}, Notify{}, JoinMcast{}, GetEvent{}, EventResp{}, SetOption{}, MigrateId{}, MigrateResp{},
}

// TestLayout compares the structs with those of the kernel's headers.
func TestLayout(t *testing.T) {
	want, exprs := make(map[string]uint64), make(map[string]string)
	for _, v := range all {
		typ := reflect.TypeOf(v)
		name := "struct rdma_ucm_" + snake(typ.Name())
		switch typ.Name() {
		case "QpAttr":
			name = "struct ib_uverbs_qp_attr"
		case "UserPathRec":
			name = "struct ib_user_path_rec"
		}
		want[typ.Name()] = uint64(typ.Size())
		exprs[typ.Name()] = "sizeof(" + name + ")"
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Name == "_" {
				continue
			}
			key := typ.Name() + "." + f.Name
			want[key] = uint64(f.Offset)
			exprs[key] = fmt.Sprintf("offsetof(%s, %s)", name, snake(f.Name))
		}
	}
	got := dump(t, exprs)
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d here, %d in C", name, n, got[name])
		}
	}
	t.Logf("%d sizes and offsets compared", len(want))
}

// TestConstants compares the constants with those of the kernel's headers.
func TestConstants(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "const.go", nil, 0)
	if err != nil {
		t.Skipf("the source is not here: %v", err)
	}
	var text []byte
	for _, h := range headers {
		b, _ := os.ReadFile(filepath.Join("/usr/include/rdma", h))
		text = append(text, b...)
	}
	want, exprs := make(map[string]uint64), make(map[string]string)
	events := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		name := spec.Names[0].Name
		if !regexp.MustCompile(`\b` + name + `\b`).Match(text) {
			events++ // from a header that programs do not have
			return true
		}
		v, err := strconv.ParseUint(spec.Values[0].(*ast.BasicLit).Value, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		want[name], exprs[name] = v, name
		return true
	})
	got := dump(t, exprs)
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %#x here, %#x in C", name, n, got[name])
		}
	}
	if events != 16 || len(want) < 30 {
		t.Errorf("%d constants compared, %d not in the headers", len(want), events)
	}
}

// TestTable compares the pointers that the table names with the structs.
func TestTable(t *testing.T) {
	seen := make(map[uint32]bool)
	for _, c := range Commands {
		if seen[c.ID] || Lookup(c.ID).Name != c.Name {
			t.Errorf("%s: number %d", c.Name, c.ID)
		}
		seen[c.ID] = true
		pointer := -1
		for _, name := range []string{"Response", "Optval"} {
			if f, ok := c.In.FieldByName(name); ok {
				pointer = int(f.Offset)
			}
		}
		if c.Pointer != pointer || c.Out != nil && pointer < 0 {
			t.Errorf("%s: pointer at %d, the struct has it at %d", c.Name, c.Pointer, pointer)
		}
	}
	if Lookup(99) != nil {
		t.Error("a command 99")
	}
}
