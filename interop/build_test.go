//go:build linux

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// A program is a peer to start: where it is and what it needs.
type program struct {
	name string // "Go", or release and place of a C installation
	path string // the peer
	tool string // ucx_perftest
	env  []string
	ours bool
	dir  string // of all of C's, if they were built elsewhere

	crowd, partner string // of ours
	example        string // of C's: ucp_client_server
}

// distribution is the prefix of the C UCX that comes with the system.
const distribution = "/usr"

// prefixes lists the C installations to test: the distribution's if there is
// one, and those of CPEERS.
func prefixes() []string {
	var list []string
	if _, err := os.Stat(filepath.Join(distribution, "include/ucp/api/ucp.h")); err == nil {
		list = append(list, distribution)
	}
	for _, p := range filepath.SplitList(os.Getenv("CPEERS")) {
		if p != "" && p != distribution {
			list = append(list, p)
		}
	}
	return list
}

// buildC builds cpeer for every C installation into dir.
func buildC(t *testing.T, dir string) []program {
	t.Helper()
	if k := readKit(t, kitDir); k != nil {
		return k.c
	}
	list := prefixes()
	if len(list) == 0 {
		needtest.Tool(t, "a C UCX to test against: "+distribution+"/include/ucp/api/ucp.h, or CPEERS")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		needtest.Tool(t, "gcc, to build the C peer")
	}
	sources, err := filepath.Glob("../testdata/cpeer/*.c")
	if err != nil {
		t.Fatal(err)
	}
	var programs []program
	for i, prefix := range list {
		out := filepath.Join(dir, fmt.Sprintf("cpeer%d", i))
		lib := filepath.Join(prefix, "lib")
		run(t, compiler(prefix, out, sources...))
		p := program{path: out, tool: filepath.Join(prefix, "bin/ucx_perftest")}
		if prefix != distribution {
			p.env = []string{"LD_LIBRARY_PATH=" + lib}
		}
		p.name = release(t, p)
		for _, other := range programs {
			if other.name == p.name {
				p.name += " " + prefix
			}
		}
		programs = append(programs, p)
	}
	return programs
}

// compiler is the command that builds a program for the C UCX at a prefix.
func compiler(prefix, out string, sources ...string) *exec.Cmd {
	lib := filepath.Join(prefix, "lib")
	args := []string{"-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-isystem", filepath.Join(prefix, "include")}
	args = append(args, sources...)
	return exec.Command("gcc", append(args, "-o", out, "-L"+lib, "-Wl,-rpath,"+lib, "-lucp", "-lucs")...)
}

// buildGo builds the Go peer into dir.
func buildGo(t *testing.T, dir string) program {
	t.Helper()
	if k := readKit(t, kitDir); k != nil {
		return k.ours
	}
	run(t, exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "./gopeer"))
	return program{name: "Go", path: filepath.Join(dir, "gopeer"), ours: true}
}

// buildTool builds our ucx_perftest into dir.
func buildTool(t *testing.T, dir string) program {
	t.Helper()
	if k := readKit(t, kitDir); k != nil {
		return k.ours
	}
	run(t, exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "../cmd/ucx_perftest", "../cmd/ucx_info", "./crowd", "./partner"))
	in := func(name string) string { return filepath.Join(dir, name) }
	return program{name: "Go", tool: in("ucx_perftest"), crowd: in("crowd"), partner: in("partner"), ours: true}
}

// buildPartner builds our counterpart of C's examples into dir.
func buildPartner(t *testing.T, dir string) string {
	t.Helper()
	if k := readKit(t, kitDir); k != nil {
		return k.ours.partner
	}
	run(t, exec.Command("go", "build", "-o", dir, "./partner"))
	return filepath.Join(dir, "partner")
}

func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// release asks a peer for its release.
func release(t *testing.T, p program) string {
	t.Helper()
	where := newPlace()
	defer where.close()
	started, err := startPeer(where, p.path, p.env)
	if err != nil {
		t.Fatal(err)
	}
	defer started.kill()
	return started.name
}
