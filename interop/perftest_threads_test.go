//go:build linux

package interop

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// TestPerftestThreads runs the C tool against Go's, in both roles, with several threads on each
// side. There are more threads than CPUs, and C's never yield, so the counts are small.
func TestPerftestThreads(t *testing.T) {
	c := buildC(t)
	ours := buildGo(t)
	tests := []struct {
		name string
		size int
	}{{"tag_lat", 8}, {"tag_bw", 65536}, {"tag_sync_bw", 8}, {"ucp_put_bw", 1000}, {"ucp_fadd", 8}, {"ucp_am_bw", 8}, {"stream_bw", 65536}}
	if testing.Short() {
		tests = tests[:2]
	}
	for _, theirs := range c {
		t.Run(theirs.name, func(t *testing.T) {
			if _, err := os.Stat(theirs.tool); err != nil {
				needtest.Tool(t, theirs.tool)
			}
			needThreads(t, theirs)
			where := newPlace()
			defer where.close()
			for _, test := range tests {
				for _, weServe := range []bool{true, false} {
					r := perfRun{server: theirs, client: ours, peer: theirs,
						test: test.name, size: test.size, iterations: 50, warmup: 3, threads: 2,
						serverEnv: allTransports.env(false), clientEnv: allTransports.env(true)}
					who := "server " + theirs.name
					if weServe {
						r.server, r.client = r.client, r.server
						r.serverEnv, r.clientEnv = r.clientEnv, r.serverEnv
						who = "client " + theirs.name
					}
					if _, err := r.run(where); err != nil {
						t.Errorf("%s, %s: %v", test.name, who, err)
					}
				}
			}
		})
	}
}

// needThreads skips the test if C's tool was built without OpenMP, which it needs for threads.
func needThreads(t *testing.T, p program) {
	t.Helper()
	cmd := exec.Command(p.tool, "-l", "-t", "tag_lat", "-T", "2", "-n", "1", "-w", "0", "-f")
	cmd.Env = slices.Concat(cleanEnv(), []string{"UCX_TLS=self"}, p.env)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return
	}
	if strings.Contains(string(out), "OpenMP") {
		needtest.Tool(t, p.tool+" with OpenMP")
	}
	t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
}
