//go:build unix

package cpu

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// TestDeviceARM64 checks the code for arm64, as this processor is most likely another one: the
// barriers are those of rdma-core's util/udma_barrier.h, a doorbell is one store, and a block one
// store of 64 bytes. The numbers are the encodings of the architecture, independent of the
// assembler's names.
func TestDeviceARM64(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		needtest.Tool(t, err.Error())
	}
	object := filepath.Join(t.TempDir(), "device.o")
	tool := func(args ...string) string {
		cmd := exec.Command("go", append([]string{"tool"}, args...)...)
		cmd.Env = append(cmd.Environ(), "GOARCH=arm64")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
		return string(out)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	tool("asm", "-I", filepath.Join(strings.TrimSpace(string(root)), "pkg/include"), "-p", "cpu", "-o", object, "device_arm64.s")
	words := regexp.MustCompile(`(?m)^TEXT cpu\.(\w+)|\t0x[0-9a-f]+\t+([0-9a-f]{8})\t`)
	got, name := make(map[string]string), ""
	for _, m := range words.FindAllStringSubmatch(tool("objdump", object), -1) {
		if m[1] != "" {
			name = m[1]
		}
		got[name] += m[2] + " "
	}
	const dsbST, dsbLD, ret = "d5033e9f", "d5033d9f", "d65f03c0"
	for name, want := range map[string]string{
		"ToDevice": dsbST + " " + ret, "FlushWrites": dsbST + " " + ret, "FromDevice": dsbLD + " " + ret,
		"StoreDevice64": "f9000001 " + ret, // str x1, [x0]
		"CopyDevice64":  "4c402020 4c002000 " + ret,
	} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s is %s, not %s", name, got[name], want)
		}
	}
}
