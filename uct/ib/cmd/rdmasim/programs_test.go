//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/porttest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest/run"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// longRun makes everything run on each kind of device, which takes minutes. Otherwise each part
// runs on one of the devices.
var longRun = os.Getenv("MLX5_LONG") != ""

// limit bounds the time of a program that may not end.
const limit = 3 * time.Minute

// devices are the devices that programs run on.
var devices = []struct {
	name       string
	infiniBand bool
	mlx5       *verbstest.MLX5
}{
	{"rxe", false, nil},
	{"mlx5", false, &verbstest.MLX5{Loose: true}},
	{"mlx5, static, version 0", false, &verbstest.MLX5{Loose: true, StaticUARs: true, Version0: true}},
	{"mlx5, InfiniBand", true, &verbstest.MLX5{Loose: true}},
}

// newMachine returns a machine with two devices of a kind.
func newMachine(t *testing.T, infiniBand bool, mlx5 *verbstest.MLX5) *run.Machine {
	t.Helper()
	return machineOn(t, newNetwork(2, infiniBand, mlx5))
}

// machineOn returns a machine with the devices of a network. A broken rule of a device fails the
// test.
func machineOn(t *testing.T, n *verbstest.Fabric) *run.Machine {
	t.Helper()
	ucttest.NoLeaks(t)
	m, err := run.New(n)
	if errors.Is(err, ucs.ErrUnsupported) {
		needtest.Tool(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		for _, k := range n.Devices() {
			for _, rule := range k.Broken() {
				t.Error(rule)
			}
		}
	})
	return m
}

// compile builds packages, with go build or go test -c, and returns the directory of the programs.
func compile(t *testing.T, how string, packages ...string) (dir string) {
	t.Helper()
	dir = t.TempDir() + "/"
	args := append(strings.Fields(how), "-ldflags=-s -w", "-o", dir)
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return dir
}

// skipShort skips tests that compile and run programs.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() || race.Enabled {
		t.Skip("it compiles programs, and runs them")
	}
}

// TestPrograms runs tests for real devices on each kind of simulated device: they run with the C
// programs in both roles, and compare output and data.
func TestPrograms(t *testing.T) {
	skipShort(t)
	const devinfo, pingpong, ibPerftest = "../devinfo", "../internal/pingpong", "../ib_perftest"
	dir := compile(t, "test -c", devinfo, pingpong, ibPerftest)
	for _, p := range []struct{ folder, tests string }{{devinfo, "^TestAgainstC$"}, {pingpong, "^TestDevice$"}, {ibPerftest, "^TestInterop$"}} {
		on := devices
		if p.folder == ibPerftest {
			on = devices[1:] // make test-rxe runs soft-RoCE in a VM
		}
		for i, d := range on {
			t.Run(filepath.Base(p.folder)+"/"+d.name, func(t *testing.T) {
				m := newMachine(t, d.infiniBand, d.mlx5)
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				cmd := exec.CommandContext(ctx, dir+filepath.Base(p.folder)+".test", "-test.run", p.tests, "-test.v")
				cmd.Dir = p.folder
				if !longRun {
					cmd.Env = append(os.Environ(), rdmatest.Part(i, len(on)))
				}
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := m.Run(cmd); err != nil {
					t.Errorf("%v\n%s", err, &out)
				}
				if _, what, found := strings.Cut(out.String(), "missing: "); found {
					what, _, _ = strings.Cut(what, "\n")
					needtest.Tool(t, what)
				}
				passed := bytes.Count(out.Bytes(), []byte("--- PASS"))
				if skipped := bytes.Count(out.Bytes(), []byte("--- SKIP")); passed == 0 || skipped > 0 {
					t.Errorf("%d tests passed, %d skipped\n%s", passed, skipped, &out)
				}
				t.Logf("%d tests passed", passed)
			})
		}
	}
}

// TestReport checks that scripts/selftest passes on each kind of device.
func TestReport(t *testing.T) {
	skipShort(t)
	if !longRun {
		t.Skip("it runs tests that others run, too; make test-mlx5 has it")
	}
	for _, d := range devices {
		t.Run(d.name, func(t *testing.T) {
			m := newMachine(t, d.infiniBand, d.mlx5)
			name, comparison := "mlx5_0", "\npassed   comparison"
			if d.mlx5 == nil {
				name, comparison = "rxe0", "\n-        comparison  not run: rxe0 is not a device of mlx5"
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			cmd := exec.CommandContext(ctx, "../../../../scripts/selftest", name)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := m.Run(cmd); err != nil {
				t.Errorf("%v\n%s", err, &out)
			}
			for _, part := range []string{"\npassed   selftest", "\npassed   suite", comparison} {
				if !strings.Contains(out.String(), part) {
					t.Errorf("there is no %q in\n%s", part, &out)
				}
			}
		})
	}
}

// Aliases of transports, with the auxiliary transports that they need. Those of mlx5 are UCX's own
// part of the driver, next to libmlx5.
const rc, ud, rcMLX5, udMLX5 = "rc_v", "ud_verbs", "rc_x", "ud_x"

// perftest runs ucx_perftest of C and ours.
type perftest struct {
	programs map[bool]string // by whether the program is ours
	release  string          // release of C UCX
}

func newPerftest(t *testing.T) *perftest {
	t.Helper()
	skipShort(t)
	c, err := exec.LookPath("ucx_perftest")
	if err != nil {
		needtest.Tool(t, err.Error()+" (apt-get install ucx-utils)")
	}
	out, err := exec.Command("ucx_info", "-v").Output()
	if err != nil {
		needtest.Tool(t, err.Error()+" (apt-get install ucx-utils)")
	}
	release := regexp.MustCompile(`ersion:? (\d+\.\d+)`).FindSubmatch(out)
	if release == nil {
		t.Fatalf("the release of C's: %s", out)
	}
	ours := compile(t, "build", "../../../../cmd/ucx_perftest") + "ucx_perftest"
	return &perftest{map[bool]string{true: ours, false: c}, string(release[1])}
}

// end is a program at one end of a connection.
type end struct {
	ours bool
	tls  string
}

func (e end) String() string {
	return map[bool]string{true: "Go ", false: "C "}[e.ours] + e.tls
}

// TestUCX runs ucx_perftest of C with itself and with ours.
func TestUCX(t *testing.T) {
	p := newPerftest(t)
	t.Run("apart", p.apart)
	for i, d := range devices {
		for k, ends := range [][2]end{ // server, client
			{{false, rc}, {false, rc}}, {{false, ud}, {false, ud}}, {{false, rcMLX5}, {false, rcMLX5}}, {{false, udMLX5}, {false, udMLX5}},
			{{true, rc}, {false, rc}}, {{false, rc}, {true, rc}}, {{true, ud}, {false, ud}}, {{false, ud}, {true, ud}}, {{true, rc}, {true, rc}}, {{true, ud}, {true, ud}},
		} {
			if d.mlx5 == nil && strings.HasSuffix(ends[0].tls, "_x") {
				continue
			}
			if !longRun && (i+k)%len(devices) != 0 {
				continue // another device runs them
			}
			for _, test := range []string{"tag_lat -s 2000 -n 200", "tag_bw -s 200000 -n 30"} {
				if d.name != "mlx5" && strings.HasPrefix(test, "tag_bw") {
					continue
				}
				t.Run(fmt.Sprintf("%s/%v, %v/%s", d.name, ends[0], ends[1], test), func(t *testing.T) {
					server, client := p.run(t, newMachine(t, d.infiniBand, d.mlx5), ends, test)
					for _, e := range []*ended{client, server} {
						if e.err != nil || strings.Contains(e.out.String(), "ERROR") {
							t.Errorf("%v: %v\n%s", e.Args, e.err, &e.out)
						}
					}
				})
			}
		}
	}
}

// apart checks that mlx5 transports of C do not reach verbs transports, because their names differ,
// neither C's nor ours.
func (p *perftest) apart(t *testing.T) {
	for _, ends := range [][2]end{{{false, rcMLX5}, {false, rc}}, {{false, rcMLX5}, {true, rc}}, {{true, ud}, {false, udMLX5}}} {
		t.Run(fmt.Sprint(ends[0], ", ", ends[1]), func(t *testing.T) {
			_, client := p.run(t, newMachine(t, false, &verbstest.MLX5{Loose: true}), ends, "tag_lat -n 1")
			if client.err == nil || !strings.Contains(client.out.String(), "unreachable") {
				t.Errorf("%v: %v\n%s", client.Args, client.err, &client.out)
			}
		})
	}
}

// ended is a program that has ended.
type ended struct {
	*exec.Cmd
	out bytes.Buffer
	err error
}

// run runs a server and a client to their ends.
func (p *perftest) run(t *testing.T, m *run.Machine, ends [2]end, test string) (server, client *ended) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	port := porttest.Free(t)
	start := func(e end, more ...string) *ended {
		args := append(more, "-w", "10", "-p", fmt.Sprint(port), "-t")
		x := &ended{Cmd: exec.CommandContext(ctx, p.programs[e.ours], append(args, strings.Fields(test)...)...)}
		// Simulated devices write datagram headers like soft-RoCE, which C takes for RoCE
		// v1.
		x.Env = append(os.Environ(), "UCX_TLS="+e.tls, "UCX_UD_VERBS_ETH_DGID_CHECK=n")
		x.Stdout, x.Stderr = &x.out, &x.out
		if err := m.Start(x.Cmd); err != nil {
			t.Fatal(err)
		}
		return x
	}
	server = start(ends[0])
	listening(t, port)
	args := []string{"127.0.0.1"}
	if ends[1].ours && !ends[0].ours {
		args = append(args, "--peer", p.release)
	}
	client = start(ends[1], args...)
	client.err = client.Wait()
	if client.err != nil {
		server.Process.Kill() // it may not have noticed
	}
	server.err = server.Wait()
	return server, client
}

// listening waits until a process listens on a port, without connecting to it.
func listening(t *testing.T, port int) {
	t.Helper()
	want := fmt.Sprintf(":%04X", port)
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			text, _ := os.ReadFile(file)
			for line := range strings.SplitSeq(string(text), "\n") {
				// local address, remote address, state; 0A is LISTEN.
				if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], want) && f[3] == "0A" {
					return
				}
			}
		}
	}
	t.Fatalf("nobody listens at port %d", port)
}
