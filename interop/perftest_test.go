//go:build linux

package interop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
)

// perftestRuns are the runs of each C installation's ucx_perftest with Go's. The counts are for
// checking data, not for timing.
var perftestRuns = []perfCount{{8, 1000}, {65536, 200}, {4 << 20, 20}}

type perfCount struct{ size, iterations int }

type perfTest struct {
	name  string
	words bool // with 8 bytes only
}

var perftests = []perfTest{
	{"tag_lat", false}, {"tag_bw", false}, {"tag_sync_lat", false}, {"tag_sync_bw", false},
	{"ucp_am_lat", false}, {"ucp_am_bw", false}, {"stream_lat", false}, {"stream_bw", false},
	{"ucp_put_lat", false}, {"ucp_put_bw", false}, {"ucp_get", false},
	{"ucp_add", true}, {"ucp_fadd", true}, {"ucp_swap", true}, {"ucp_cswap", true},
}

// TestPerftest runs the C tool against Go's, in both roles.
func TestPerftest(t *testing.T) {
	t.Parallel() // the peers mostly sleep
	c := buildC(t)
	ours := buildGo(t)
	for _, theirs := range c {
		t.Run(theirs.name, func(t *testing.T) {
			if _, err := os.Stat(theirs.tool); err != nil {
				needtest.Tool(t, theirs.tool)
			}
			runPerftest(t, ours, theirs)
		})
	}
}

func runPerftest(t *testing.T, ours, theirs program) {
	where := newPlace()
	defer where.close()
	m := newMatrix("ucx_perftest, " + ours.name + " with " + theirs.name)
	devices := where.devices()
	routes, runs := []route{lo}, perftestRuns
	if last := devices[len(devices)-1]; len(devices) > 1 {
		routes = append(routes, network(last)) // all devices together
	}
	routes = append(routes, posix, sysv, posixCMA, allTransports)
	if !needtest.Full { // these include what the others use
		routes = []route{network(devices[len(devices)-1]), posixCMA, allTransports}
	}
	if testing.Short() {
		routes, runs = routes[:1], runs[:1]
	}
	for _, over := range routes {
		t.Run(over.name, func(t *testing.T) { perfColumn(t, where, m, ours, theirs, over, perftests, runs) })
	}
	m.print(os.Stdout)
}

// perfColumn runs the two programs with each other in both roles, test by test. Except in the long
// form, it runs half of the combinations of test, count and role, and the next column the other
// half.
func perfColumn(t *testing.T, where *place, m *matrix, ours, theirs program, over route, tests []perfTest, runs []perfCount) {
	failures, in := 0, column{"defaults", over.name}
	first := len(m.columns)
	for i, test := range tests {
		for k, run := range runs {
			if test.words && run.size != 8 {
				continue
			}
			for d, weServe := range []bool{true, false} {
				if sparse && !everyOther(first, i, k, d) {
					continue
				}
				r := perfRun{server: theirs, client: ours,
					test: test.name, size: run.size, iterations: run.iterations, warmup: 10,
					serverEnv: over.env(false), clientEnv: over.env(true)}
				if !theirs.ours {
					r.peer = theirs
				}
				at := row{test.name, ours.name + " client"}
				if weServe {
					r.server, r.client = r.client, r.server
					r.serverEnv, r.clientEnv = r.clientEnv, r.serverEnv
					at.direction = ours.name + " server"
				}
				if failures == maxFailures {
					m.set(at, run.size, in, notRun)
				} else if _, err := r.run(where); err != nil {
					failures++
					m.fail(t, at, run.size, in, err)
				} else {
					m.set(at, run.size, in, ok)
				}
			}
		}
	}
}

// perfRun is one run of ucx_perftest between two processes.
type perfRun struct {
	server, client program
	peer           program // the C side, if there is one
	test           string
	size           int
	iterations     int
	warmup         int
	threads        int // on each side, if several
	serverEnv      []string
	clientEnv      []string
	cpus           [2]string // of server and client, "" for any CPU
	options        []string  // of both sides
}

// start starts one of the processes.
func (r perfRun) start(where *place, p program, cpu string, env []string, stdout io.Writer, args ...string) (*process, error) {
	name := p.tool
	if cpu != "" {
		name, args = "taskset", append([]string{"-c", cpu, p.tool}, args...)
	}
	cmd := exec.Command(name, args...)
	cmd.Env = slices.Concat(cleanEnv(), env, p.env)
	cmd.Stdout = stdout
	return where.start(cmd)
}

// arguments returns those of the side that decides, the client.
func (r perfRun) arguments() []string {
	args := []string{"-t", r.test, "-s", strconv.Itoa(r.size),
		"-n", strconv.Itoa(r.iterations), "-w", strconv.Itoa(r.warmup), "-f"}
	if r.threads > 1 {
		args = append(args, "-T", strconv.Itoa(r.threads))
	}
	args = append(args, r.options...)
	if r.client.ours && r.peer.name != "" {
		args = append(args, "--peer", majorMinor(r.peer.name))
	}
	return args
}

// run runs both processes and returns the result.
func (r perfRun) run(where *place) (perfResult, error) {
	port, err := where.freePort()
	if err != nil {
		return perfResult{}, err
	}
	s, err := r.start(where, r.server, r.cpus[0], r.serverEnv, nil, append([]string{"-p", port}, r.options...)...)
	if err != nil {
		return perfResult{}, err
	}
	defer s.kill()
	if err := s.listening(port); err != nil {
		return perfResult{}, err
	}
	var stdout bytes.Buffer
	c, err := r.start(where, r.client, r.cpus[1], r.clientEnv, &stdout, append([]string{"127.0.0.1", "-p", port}, r.arguments()...)...)
	if err != nil {
		return perfResult{}, err
	}
	defer c.kill()
	if err := c.wait(operationLimit); err != nil {
		return perfResult{}, fmt.Errorf("client: %w\n%sserver:\n%s", err, &stdout, s.output)
	}
	if err := s.wait(exitLimit); err != nil {
		return perfResult{}, fmt.Errorf("server: %w", err)
	}
	return parsePerf(stdout.String(), r.iterations, r.threads)
}

// runAlone runs the client as its own peer.
func (r perfRun) runAlone(where *place) (perfResult, error) {
	var stdout bytes.Buffer
	p, err := r.start(where, r.client, r.cpus[1], r.clientEnv, &stdout, append([]string{"-l"}, r.arguments()...)...)
	if err != nil {
		return perfResult{}, err
	}
	if err := p.wait(operationLimit); err != nil {
		return perfResult{}, fmt.Errorf("%w\n%s", err, &stdout)
	}
	return parsePerf(stdout.String(), r.iterations, r.threads)
}

// runCrowd runs the program crowd with as many goroutines as threads.
func (r perfRun) runCrowd(where *place) (perfResult, error) {
	var stdout bytes.Buffer
	p := r.client
	p.tool = p.crowd
	started, err := r.start(where, p, "", r.clientEnv, &stdout, append([]string{"-goroutines", strconv.Itoa(r.threads),
		"-requests", strconv.Itoa(r.iterations), "-size", strconv.Itoa(r.size)}, r.options...)...)
	if err != nil {
		return perfResult{}, err
	}
	if err := started.wait(operationLimit); err != nil {
		return perfResult{}, fmt.Errorf("%w\n%s", err, &stdout)
	}
	var got perfResult
	_, err = fmt.Sscan(stdout.String(), &got.rate, &got.typical, &got.tail)
	return got, err
}

// perfResult is the last line of ucx_perftest or crowd.
type perfResult struct {
	typical   float64 // latency, microseconds, 50th percentile
	mean      float64 // latency, microseconds, over all iterations
	tail      float64 // latency, microseconds, 99th percentile
	bandwidth float64 // MiB per second
	rate      float64 // messages per second
}

// parsePerf parses the last line: iterations, then latency (percentile, recent, overall), bandwidth
// (recent, overall) and rate (recent, overall). Several threads have only the overall values.
func parsePerf(output string, iterations, threads int) (perfResult, error) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	bad := fmt.Errorf("no result of %d iterations in the client's output:\n%s", iterations, output)
	columns := 8
	if threads > 1 {
		columns = 4
	}
	if len(fields) != columns || fields[0] != strconv.Itoa(iterations) {
		return perfResult{}, bad
	}
	values := make([]float64, len(fields))
	for i, f := range fields {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || v < 0 {
			return perfResult{}, bad
		}
		values[i] = v
	}
	if threads > 1 {
		return perfResult{mean: values[1], bandwidth: values[2], rate: values[3]}, nil
	}
	return perfResult{typical: values[1], mean: values[3], bandwidth: values[5], rate: values[7]}, nil
}

// listening waits until a program in the process's network listens at a TCP port. A test connection
// would be taken for the client.
func (p *process) listening(port string) error {
	for end := time.Now().Add(exitLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		select {
		case <-p.ended:
			return fmt.Errorf("the server ended: %v\n%s", p.err, p.output)
		default:
		}
		for _, table := range []string{"tcp", "tcp6"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", p.cmd.Process.Pid, table))
			if err == nil && hasListener(string(text), port) {
				return nil
			}
		}
	}
	return errors.New("the server does not listen")
}

// hasListener reports whether a table of /proc/net has a listening socket at the port.
func hasListener(table, port string) bool {
	const listen = "0A" // TCP_LISTEN
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != listen {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		if n, err := strconv.ParseUint(hex, 16, 16); err == nil && strconv.FormatUint(n, 10) == port {
			return true
		}
	}
	return false
}
