//go:build linux

package abi

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
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

var headers = []string{
	"rdma/rdma_user_ioctl_cmds.h", "rdma/ib_user_ioctl_cmds.h", "rdma/ib_user_ioctl_verbs.h", "rdma/ib_user_verbs.h",
	"rdma/rdma_user_ioctl.h", "rdma/rdma_user_rxe.h", "rdma/mlx5-abi.h", "rdma/mlx5_user_ioctl_cmds.h", "rdma/mlx5_user_ioctl_verbs.h",
	"infiniband/mlx5dv.h",
}

// text returns the headers of the kernel and of rdma-core on this machine, without comments.
// Without headers it ends the test.
func text(t *testing.T) string {
	t.Helper()
	missing := func(format string, args ...any) { needtest.Tool(t, fmt.Sprintf(format, args...)) }
	if _, err := exec.LookPath("gcc"); err != nil {
		missing("no C compiler: %v (apt-get install gcc)", err)
	}
	var all []byte
	for _, h := range headers {
		b, err := os.ReadFile(filepath.Join("/usr/include", h))
		if err != nil {
			missing("no headers of the kernel: %v (apt-get install linux-libc-dev libibverbs-dev)", err)
		}
		all = append(all, b...)
	}
	return string(regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAll(all, nil))
}

// run compiles and runs a C program and returns its output as numbers by name.
func run(t *testing.T, body string) map[string]uint64 {
	t.Helper()
	var src bytes.Buffer
	src.WriteString("#include <stddef.h>\n#include <stdio.h>\n")
	for _, h := range headers {
		fmt.Fprintf(&src, "#include <%s>\n", h)
	}
	fmt.Fprintf(&src, "#define P(name, value) printf(\"%%s %%llu\\n\", name, (unsigned long long)(value))\nint main(void)\n{\n%s\treturn 0;\n}\n", body)
	dir := t.TempDir()
	exe := filepath.Join(dir, "dump")
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
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		m[name] = n
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

// cStruct returns the C name of a struct.
func cStruct(name string) string {
	switch {
	case name == "Mminfo":
		return "mminfo"
	case strings.HasPrefix(name, "Rxe"):
		return snake(name)
	case strings.HasPrefix(name, "Mlx5Wqe"), strings.HasPrefix(name, "Mlx5Cqe"), strings.HasPrefix(name, "Mlx5Err"):
		return snake(name)
	case strings.HasPrefix(name, "Mlx5"):
		return "mlx5_ib_" + snake(strings.TrimPrefix(name, "Mlx5"))
	}
	return "ib_uverbs_" + snake(name)
}

// The members whose names do not follow from the Go names.
var cFields = map[string]string{
	"OdpCaps.RcOdpCaps":  "per_transport_caps.rc_odp_caps",
	"OdpCaps.UcOdpCaps":  "per_transport_caps.uc_odp_caps",
	"OdpCaps.UdOdpCaps":  "per_transport_caps.ud_odp_caps",
	"RxeQueueBuf.Pad1":   "pad_1",
	"RxeQueueBuf.Pad2":   "pad_2",
	"RxeQueueBuf.Pad3":   "pad_3",
	"Mlx5WqeAv.Qkey":     "key.qkey.qkey",
	"Mlx5WqeAv.Reserved": "key.qkey.reserved",
}

// The members of the union in struct rxe_send_wr.
var unions = map[string]string{"RxeRdmaWr": "rdma", "RxeAtomicWr": "atomic", "RxeUdWr": "ud", "RxeMwWr": "mw"}

// structTypes returns the structs of this package.
func structTypes() map[string]reflect.Type {
	m := make(map[string]reflect.Type)
	for _, v := range []any{
		IoctlHdr{}, Attr{}, CmdHdr{}, AsyncEventDesc{}, CompEventDesc{}, GidEntry{}, AllocPd{}, AllocPdResp{}, RegMr{},
		RegMrResp{}, ReregMr{}, ReregMrResp{}, CreateCompChannel{}, CreateCompChannelResp{}, ResizeCq{}, ResizeCqResp{}, ReqNotifyCq{}, DestroyCqResp{},
		Wc{}, ModifySrq{}, QuerySrq{}, QuerySrqResp{}, DestroySrqResp{}, GlobalRoute{}, AhAttr{}, CreateAh{}, CreateAhResp{},
		AttachMcast{}, PostSend{}, PostSendResp{}, QueryDevice{}, QueryDeviceResp{}, ExQueryDevice{}, OdpCaps{}, RssCaps{}, TmCaps{},
		CqModerationCaps{}, ExQueryDeviceResp{}, QueryPortResp{}, QueryPortRespEx{}, QpCap{}, QpDest{}, ModifyQp{}, QueryQp{},
		QueryQpResp{}, DestroyQpResp{}, Mminfo{}, RxeCreateCqResp{}, RxeCreateQpResp{}, RxeCreateSrqResp{}, RxeModifySrqCmd{},
		RxeCreateAhResp{}, RxeQueueBuf{}, RxeSge{}, RxeDmaInfo{}, RxeSendWr{}, RxeRdmaWr{}, RxeAtomicWr{}, RxeUdWr{}, RxeMwWr{}, AllocMw{}, AllocMwResp{},
		RxeSendWqe{}, RxeRecvWqe{},
		Mlx5AllocUcontextReqV2{}, Mlx5AllocUcontextResp{}, Mlx5AllocPdResp{}, Mlx5CreateCq{}, Mlx5CreateCqResp{}, Mlx5ResizeCq{}, Mlx5CreateSrq{}, Mlx5CreateSrqResp{}, Mlx5CreateQp{}, Mlx5CreateQpResp{}, Mlx5CreateAhResp{}, Mlx5AllocMw{},
		Mlx5WqeCtrlSeg{}, Mlx5WqeAv{}, Mlx5WqeRaddrSeg{}, Mlx5WqeAtomicSeg{}, Mlx5WqeDataSeg{}, Mlx5WqeInlDataSeg{}, Mlx5WqeSrqNextSeg{}, Mlx5WqeUmrCtrlSeg{}, Mlx5WqeMkeyContextSeg{}, Mlx5WqeUmrKlmSeg{}, Mlx5Cqe64{}, Mlx5ErrCqe{},
	} {
		m[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
	return m
}

// TestLayout compares the structs with those of the kernel's headers.
func TestLayout(t *testing.T) {
	src := text(t)
	want := make(map[string]uint64)
	var body strings.Builder
	for name, typ := range structTypes() {
		of, path := cStruct(name), ""
		if u, ok := unions[name]; ok {
			of, path = "rxe_send_wr", "wr."+u+"."
		} else {
			fmt.Fprintf(&body, "\tP(%q, sizeof(struct %s));\n", name, of)
			want[name] = uint64(typ.Size())
		}
		start := strings.Index(src, "struct "+of+" {")
		if start < 0 {
			t.Errorf("the headers have no struct %s", of)
			continue
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Name == "_" {
				continue
			}
			key := name + "." + f.Name
			member, ok := cFields[key]
			if !ok {
				member = snake(f.Name)
			}
			if key == "QueryPortRespEx.ActiveSpeedEx" && !strings.Contains(src, "active_speed_ex") {
				continue // the headers are older
			}
			fmt.Fprintf(&body, "\tP(%q, offsetof(struct %s, %s%s));\n", key, of, path, member)
			want[key] = uint64(f.Offset)
			if path != "" {
				want[key] += 24 // offset of the union
			}
		}
	}
	got := run(t, body.String())
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d here, %d in C", name, n, got[name])
		}
	}
	t.Logf("%d sizes and offsets compared", len(want))
}

// TestEveryStruct checks that TestLayout compares every struct.
func TestEveryStruct(t *testing.T) {
	listed := structTypes()
	pkg := check(t)
	for _, name := range pkg.Scope().Names() {
		obj, ok := pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok {
			continue
		}
		s, ok := obj.Type().Underlying().(*types.Struct)
		if ok && s.NumFields() > 0 && s.Field(0).Name() == "_" && listed[name] == nil {
			t.Errorf("%s is not compared with C", name)
		}
	}
}

// check parses and type-checks this package.
func check(t *testing.T) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var list []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Skipf("the source is not here: %v", err)
		}
		list = append(list, f)
	}
	if len(list) == 0 {
		t.Skip("the source is not here")
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg, err := conf.Check("abi", fset, list, nil)
	if err != nil {
		t.Skipf("the source of the standard library is not here: %v", err)
	}
	return pkg
}

// TestConstants compares the constants with those of the kernel's headers.
func TestConstants(t *testing.T) {
	src := text(t)
	pkg := check(t)
	want := make(map[string]uint64)
	var body strings.Builder
	absent := 0
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok || !strings.Contains(name, "_") {
			continue
		}
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(src) {
			absent++ // internal to the kernel, or newer than these headers
			continue
		}
		n, _ := constant.Uint64Val(constant.ToInt(c.Val()))
		fmt.Fprintf(&body, "\tP(%q, %s);\n", name, name)
		want[name] = n
	}
	got := run(t, body.String())
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %#x here, %#x in C", name, n, got[name])
		}
	}
	t.Logf("%d constants compared, %d are not in these headers", len(want), absent)
	if len(want) < 150 {
		t.Errorf("only %d constants compared", len(want))
	}
}
