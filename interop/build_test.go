//go:build linux

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// A program is a peer to start: its path and what it needs.
type program struct {
	name string // "Go", or the release and prefix of a C installation
	path string // the peer
	tool string // ucx_perftest
	env  []string
	ours bool
	dir  string // with all programs of C, if built elsewhere

	crowd, partner string // of Go
	example        string // of C: ucp_client_server
}

// distribution is the prefix of the C UCX that comes with the system.
const distribution = "/usr"

// prefixes lists the C installations to test: the distribution's, if any, and those of CPEERS.
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

// workshop is the folder of the programs that tests share, built by the first test that needs them:
// building them for each test took a sixth of the total time.
var workshop struct {
	sync.Mutex
	folder string // until TestMain removes it
	c      []program
	ours   program
}

// workshopFolder returns the folder. The caller holds the lock.
func workshopFolder(t *testing.T) string {
	t.Helper()
	if workshop.folder == "" {
		folder, err := os.MkdirTemp("", "interop")
		if err != nil {
			t.Fatal(err)
		}
		workshop.folder = folder
	}
	return workshop.folder
}

// buildC returns cpeer for every C installation.
func buildC(t *testing.T) []program {
	t.Helper()
	if k := readKit(t, kitDir); k != nil {
		return k.c
	}
	workshop.Lock()
	defer workshop.Unlock()
	if workshop.c == nil {
		workshop.c = compileC(t, workshopFolder(t))
	}
	return slices.Clone(workshop.c)
}

// compileC builds cpeer for every C installation into a folder.
func compileC(t *testing.T, dir string) []program {
	t.Helper()
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

// compiler returns the command that builds a program for the C UCX at a prefix.
func compiler(prefix, out string, sources ...string) *exec.Cmd {
	lib := filepath.Join(prefix, "lib")
	args := []string{"-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-isystem", filepath.Join(prefix, "include")}
	args = append(args, sources...)
	return exec.Command("gcc", append(args, "-o", out, "-L"+lib, "-Wl,-rpath,"+lib, "-lucp", "-lucs")...)
}

// buildGo builds the Go programs.
func buildGo(t *testing.T) program {
	t.Helper()
	if k := readKit(t, kitDir); k != nil {
		return k.ours
	}
	workshop.Lock()
	defer workshop.Unlock()
	if !workshop.ours.ours {
		dir := workshopFolder(t)
		compileGo(t, dir, "./gopeer", "../cmd/ucx_perftest", "../cmd/ucx_info", "./crowd", "./partner")
		in := func(name string) string { return filepath.Join(dir, name) }
		workshop.ours = program{
			name: "Go", ours: true, path: in("gopeer"), tool: in("ucx_perftest"), crowd: in("crowd"), partner: in("partner"),
		}
	}
	return workshop.ours
}

// compileGo builds Go programs into a folder.
func compileGo(t *testing.T, dir string, packages ...string) {
	t.Helper()
	run(t, exec.Command("go", append([]string{"build", "-ldflags=-s -w", "-o", dir}, packages...)...))
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
