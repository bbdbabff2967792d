//go:build linux

package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A kit contains what the tests of RDMA need on a machine that cannot build anything, as in
// scripts/test-rxe: the programs, and the libraries of C UCX. There it is in the folder kit beside
// the test program:
//
//	kit/go     gopeer, ucx_perftest, ucx_info, partner
//	kit/c0     cpeer, ucx_perftest, ucx_info, ucp_client_server, ucp_hello_world of the
//	           first C installation; "name" says which it is
//	kit/c0/lib its libraries, and ucx in there its modules
//	kit/lib    the libraries that all of them share
const kitDir = "kit"

// kitModules are the modules of a C installation that a kit includes, if they exist.
var kitModules = []string{"libuct_ib.so.0", "libuct_rdmacm.so.0", "libuct_cma.so.0"}

// TestKit makes the kit in the folder that KIT names.
func TestKit(t *testing.T) {
	dir := os.Getenv("KIT")
	if dir == "" {
		t.Skip("KIT names no folder: scripts/test-rxe runs this")
	}
	if _, err := os.Stat(kitDir); err == nil {
		t.Fatal("here is a kit already")
	}
	ours := filepath.Join(dir, "go")
	makeDir(t, ours)
	compileGo(t, ours, "./gopeer", "../cmd/ucx_perftest", "../cmd/ucx_info", "./partner")
	c := buildC(t)
	for i, p := range c {
		packC(t, p, prefixes()[i], dir, filepath.Join(dir, fmt.Sprintf("c%d", i)))
	}
	// The kit must be readable, and its programs must run with its libraries.
	packed := readKit(t, dir)
	if len(packed.c) != len(c) {
		t.Errorf("%d programs of %d", len(packed.c), len(c))
	}
	for _, p := range packed.c {
		if got := release(t, p); !strings.HasPrefix(p.name, got) {
			t.Errorf("%s is %s", p.name, got)
		}
		if loaded := output(t, "env", slices.Concat(p.env, []string{"ldd", p.path})...); !strings.Contains(loaded, filepath.Join(dir, "c")) {
			t.Errorf("%s loads\n%s", p.name, loaded)
		}
	}
}

// packC puts the programs and libraries of a C installation into the folder into.
func packC(t *testing.T, p program, prefix, dir, into string) {
	t.Helper()
	modules := filepath.Join(into, "lib/ucx")
	makeDir(t, modules)
	makeDir(t, filepath.Join(dir, "lib"))
	put(t, filepath.Join(into, "name"), []byte(p.name))
	programs := map[string]string{"cpeer": p.path}
	for _, name := range []string{"ucx_perftest", "ucx_info"} {
		path := filepath.Join(filepath.Dir(p.tool), name)
		if _, err := os.Stat(path); err == nil {
			programs[name] = path
		}
	}
	for _, name := range exampleNames {
		if path := filepath.Join(t.TempDir(), name); buildExample(t, prefix, name, path) != nil {
			programs[name] = path
		}
	}
	needed := make(map[string]string)
	for name, path := range programs {
		copyFile(t, path, filepath.Join(into, name))
		addLibraries(t, p, path, needed)
	}
	from := filepath.Join(filepath.Dir(needed["libucs.so.0"]), "ucx")
	for _, name := range kitModules {
		path := filepath.Join(from, name)
		if _, err := os.Stat(path); err != nil {
			t.Logf("%s has no %s", p.name, name)
			continue
		}
		copyFile(t, path, filepath.Join(modules, name))
		addLibraries(t, p, path, needed)
	}
	for name, path := range needed {
		to := filepath.Join(dir, "lib", name)
		switch {
		case slices.Contains(kitModules, name):
			continue
		case strings.HasPrefix(name, "libuc"):
			to = filepath.Join(into, "lib", name)
		}
		if _, err := os.Stat(to); err != nil {
			copyFile(t, path, to)
		}
	}
}

// addLibraries adds the libraries that a program or module needs, under the names that it loads.
// libc is left out: each machine has its own, which matches its loader.
func addLibraries(t *testing.T, p program, path string, needed map[string]string) {
	t.Helper()
	for line := range strings.Lines(output(t, "env", slices.Concat(p.env, []string{"ldd", path})...)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[1] != "=>" || f[0] == "libc.so.6" {
			continue
		}
		if !strings.HasPrefix(f[2], "/") {
			t.Fatalf("%s: %s", path, strings.TrimSpace(line))
		}
		needed[f[0]] = f[2]
	}
}

// copyFile copies a program or library without debugging information.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	output(t, "strip", "--strip-unneeded", "-o", to, from)
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, &said)
	}
	return string(out)
}

func makeDir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// kit is the content of a kit, as readKit finds it.
type kit struct {
	ours program
	c    []program
}

// readKit reads the kit in a folder. It returns nil if there is none.
func readKit(t *testing.T, dir string) *kit {
	t.Helper()
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, "go", name) }
	k := &kit{ours: program{name: "Go", path: in("gopeer"), tool: in("ucx_perftest"), partner: in("partner"), ours: true}}
	for i := 0; ; i++ {
		in := func(name string) string { return filepath.Join(dir, fmt.Sprintf("c%d", i), name) }
		name, err := os.ReadFile(in("name"))
		if err != nil {
			break
		}
		k.c = append(k.c, program{name: string(name), path: in("cpeer"), tool: in("ucx_perftest"), dir: in(""),
			env: []string{"LD_LIBRARY_PATH=" + strings.Join([]string{in("lib"), in("lib/ucx"), filepath.Join(dir, "lib")}, ":")}})
	}
	return k
}
