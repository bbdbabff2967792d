package argscheck

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// limit bounds a run: a program that accepts a wrong argument would wait for a peer.
const limit = time.Minute

// programs are wrong command lines, each with a text that the error must contain.
var programs = map[string][]struct{ args, named string }{
	"ucx_info": {
		{"--nothing", "--nothing"}, {"-z", "'z'"}, {"-c -F", "'F'"}, {"-v host", `"host"`}, {"-p -u q", "'q'"}, {"-p -u t -n x", "-n x"},
		{"-p -u t -N -1", "-N -1"}, {"-p -u t -D gpu", "-D gpu"}, {"-e -u t -P moon", "-P moon"}, {"-e -u t -A moon", "-A moon"},
		{"-d -t moon", "moon"}, {"-m x -u t", `"x"`}, {"-m 1m,moon -u t", `"moon"`}, {"-json -p -u t", "-json"},
	},
	"ucx_perftest": {
		{"--nothing", "--nothing"}, {"-Z", "'Z'"}, {"-n", "'n'"}, {"-t moon", `"moon"`}, {"a b", `"b"`}, {"-m moon", `"moon"`}, {"--peer 9", `"9"`},
	},
	"devinfo":     {{"--nothing", "--nothing"}, {"-Z", "'Z'"}, {"-d", "'d'"}, {"-i x", "-i x"}, {"-i 0", "-i 0"}, {"moon", `"moon"`}, {"--selftest", "--selftest"}},
	"ib_perftest": {{"moon", `"moon"`}, {"--nothing", "--nothing"}, {"write_lat -s x", "x"}, {"write_lat -s", "'s'"}, {"write_lat a b", "a b"}, {"write_lat -Z", "-Z"}, {"write_lat -p 70000", "70000"}, {"send_bw -c XX", "XX"}},
	"rc_pingpong": {{"--nothing", "--nothing"}, {"-Z", "'Z'"}, {"-s", "'s'"}, {"-s x", "x"}, {"a b", `"b"`}, {"-m 7", "7"}, {"-p 70000", "70000"}},
	"uc_pingpong": {{"-Z", "'Z'"}, {"-s x", "x"}, {"a b", `"b"`}}, "ud_pingpong": {{"-Z", "'Z'"}, {"-s x", "x"}, {"a b", `"b"`}},
	"srq_pingpong": {{"-Z", "'Z'"}, {"-q 0", "0"}, {"a b", `"b"`}},
	"rping": {
		{"--nothing", "--nothing"}, {"-Z", "'Z'"}, {"-a", "'a'"}, {"-v", "-s or -c"}, {"-s moon", `"moon"`}, {"-s -p x", "port x"}, {"-s -p 70000", "port 70000"},
		{"-s -S 5", "size 5"}, {"-s -S x", "size x"}, {"-c -C x", "count x"}, {"-c -a not.an.address.invalid.", `"not.an.address.invalid."`},
	},
	"rdmasim": {{"-nothing", "-nothing"}, {"-n", "-n"}, {"-n x true", `"x"`}, {"-n 0 true", "0"}, {"-link wire true", "wire"}, {"-type moon true", "moon"}, {"nosuchprogram", "nosuchprogram"}},
	"demo":    {{"-nothing", "-nothing"}, {"-time", "-time"}, {"-time x", `"x"`}, {"moon", "moon"}, {"-serve moon", "moon"}},
	"hello":   {{"-nothing", "-nothing"}, {"moon", `"moon"`}, {"a b c d", `"d"`}, {"127.0.0.1 x", "x"}, {"127.0.0.1 70000", "70000"}},
	"http":    {{"-nothing", "-nothing"}, {"-get", "-get"}, {"moon", `"moon"`}, {"-serve a -get b", "-serve a"}, {"-serve . -listen moon", "moon"}, {"-get moon", "moon"}},
	"kv": {
		{"-nothing", "-nothing"}, {"-serve", "-serve"}, {"moon", `"moon"`}, {"-serve moon", `"moon"`}, {"-connect moon get a", `"moon"`},
		{"-serve 127.0.0.1:0 -connect 127.0.0.1:1 get a", "-connect 127.0.0.1:1"}, {"-connect 127.0.0.1:1 moon", "moon"}, {"-connect 127.0.0.1:1", "get KEY"},
	},
	"rpc": {
		{"-nothing", "-nothing"}, {"-calls", "-calls"}, {"-calls x", `"x"`}, {"-calls 0", "-calls 0"}, {"moon", `"moon"`}, {"-serve moon", `"moon"`}, {"-connect moon", `"moon"`},
		{"-serve a -connect b", "-connect b"},
	},
}

// TestArguments builds and runs all programs but examples/first, which takes no arguments.
func TestArguments(t *testing.T) {
	if testing.Short() {
		t.Skip("builds all programs")
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "./cmd/...", "./uct/ib/cmd/...", "./examples/...")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	list, err := filepath.Glob(filepath.Join(bin, "*"))
	if err != nil || len(list) != len(programs)+1 {
		t.Errorf("%d programs are built (%v), %d and first are known here", len(list), err, len(programs))
	}
	for name, lines := range programs {
		t.Run(name, func(t *testing.T) {
			if status, out, _ := runProgram(t, filepath.Join(bin, name), "--help"); status != 0 || !strings.Contains(strings.ToLower(out), "usage") && !strings.Contains(out, name+" ") {
				t.Errorf("--help: status %d:\n%s", status, out)
			}
			for _, line := range lines {
				status, out, stderr := runProgram(t, filepath.Join(bin, name), line.args)
				if status < 1 {
					t.Errorf("%s: status %d:\n%s", line.args, status, out)
				}
				if first, _, _ := strings.Cut(stderr, "\n"); !strings.Contains(first, line.named) {
					t.Errorf("%s: %q is not named in %q", line.args, line.named, first)
				}
			}
		})
	}
}

// runProgram runs a program until it exits. The status of a program that had to be killed is -1.
func runProgram(t *testing.T, path, args string) (status int, all, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, path, strings.Fields(args)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String() + errs.String(), errs.String()
}
