package interop

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// perftestRuns is what the real ucx_perftest of each C installation does with
// ours. The counts are for data, not for timing.
var perftestRuns = []struct{ size, iterations int }{{8, 1000}, {65536, 200}, {4 << 20, 20}}

var perftests = []string{"tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw"}

// TestPerftest runs the C tool against ours, in both roles.
func TestPerftest(t *testing.T) {
	dir := t.TempDir()
	c := buildC(t, dir)
	ours := buildTool(t, dir)
	for _, theirs := range c {
		t.Run(theirs.name, func(t *testing.T) {
			if _, err := os.Stat(theirs.tool); err != nil {
				need(t, theirs.tool)
			}
			runPerftest(t, ours, theirs)
		})
	}
}

func runPerftest(t *testing.T, ours, theirs program) {
	where := newPlace()
	defer where.close()
	m := newMatrix("ucx_perftest, " + ours.name + " with " + theirs.name)
	devices, runs := where.devices(), perftestRuns
	if testing.Short() {
		devices, runs = devices[:1], runs[:1]
	}
	for _, d := range devices {
		t.Run(d.name, func(t *testing.T) {
			failures := 0
			for _, test := range perftests {
				for _, run := range runs {
					for _, weServe := range []bool{true, false} {
						server, client, at := theirs, ours, row{test, ours.name + " client"}
						if weServe {
							server, client, at = ours, theirs, row{test, ours.name + " server"}
						}
						to := column{"defaults", d.name}
						if failures >= maxFailures {
							m.set(at, run.size, to, notRun)
							continue
						}
						err := perftest(where, server, client, theirs, d, test, run.size, run.iterations)
						if err != nil {
							failures++
							m.set(at, run.size, to, failed)
							t.Errorf("%s, %s, %d bytes: %v", at.operation, at.direction, run.size, err)
							continue
						}
						m.set(at, run.size, to, ok)
					}
				}
			}
		})
	}
	m.print(os.Stdout)
	fmt.Printf("%s: %s\n", m.title, m.count())
}

// perftest runs one test between two processes. Our side keeps to tcp; C has all
// its transports and must choose the common one.
func perftest(where *place, server, client, theirs program, d device, test string, size, iterations int) error {
	port, err := where.freePort()
	if err != nil {
		return err
	}
	command := func(p program, args ...string) *exec.Cmd {
		cmd := exec.Command(p.tool, args...)
		cmd.Env = append(cleanEnv(), "UCX_NET_DEVICES="+d.list)
		cmd.Env = append(cmd.Env, p.env...)
		if p.ours {
			cmd.Env = append(cmd.Env, "UCX_TLS="+ourTransports)
		}
		return cmd
	}
	s, err := where.start(command(server, "-p", port))
	if err != nil {
		return err
	}
	defer s.kill()
	if err := s.listening(port); err != nil {
		return err
	}

	args := []string{"127.0.0.1", "-p", port, "-t", test, "-s", strconv.Itoa(size),
		"-n", strconv.Itoa(iterations), "-w", "10", "-f"}
	if client.ours {
		args = append(args, "--peer", majorMinor(theirs.name))
	}
	cmd := command(client, args...)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	c, err := where.start(cmd)
	if err != nil {
		return err
	}
	defer c.kill()
	if err := c.wait(operationLimit); err != nil {
		return fmt.Errorf("client: %w\n%sserver:\n%s", err, &stdout, s.output)
	}
	if err := s.wait(exitLimit); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return finalLine(stdout.String(), iterations)
}

// majorMinor turns "C 1.13.1 …" into "1.13".
func majorMinor(name string) string {
	release, _, _ := strings.Cut(strings.TrimPrefix(name, "C "), " ")
	if parts := strings.SplitN(release, ".", 3); len(parts) == 3 {
		return parts[0] + "." + parts[1]
	}
	return release
}

// finalLine checks the last line of the client: the iterations and eight more
// numbers, as latency, bandwidth and rate.
func finalLine(output string, iterations int) error {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	bad := fmt.Errorf("no result of %d iterations in the client's output:\n%s", iterations, output)
	if len(fields) != 8 || fields[0] != strconv.Itoa(iterations) {
		return bad
	}
	for _, f := range fields {
		if v, err := strconv.ParseFloat(f, 64); err != nil || v < 0 {
			return bad
		}
	}
	return nil
}

// listening waits until a program in the network of the process listens on a TCP
// port. Connecting to find out would be taken for the client.
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

// hasListener looks for a listening socket in a table of /proc/net.
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
