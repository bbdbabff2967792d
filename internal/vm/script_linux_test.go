package vm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Statuses that scripts/vm returns for itself, not for its command.
const (
	statusLimit   = 124
	statusFailure = 125
)

// script is one run of scripts/vm.
type script struct {
	*exec.Cmd
	tmp    string // its TMPDIR, used by it alone
	stderr bytes.Buffer
}

func newScript(t *testing.T, args ...string) *script {
	t.Helper()
	path := os.Getenv("VM_TESTS")
	if path == "" {
		t.Skip("VM_TESTS does not name scripts/vm: make test-rxe runs this")
	}
	t.Parallel()
	s := &script{Cmd: exec.Command(path, args...), tmp: t.TempDir()}
	s.Env = append(os.Environ(), "TMPDIR="+s.tmp, "VM_CPUS=1")
	s.Stderr = &s.stderr
	// These processes end with the test, however it ends.
	s.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("messages: %s", s.stderr.Bytes())
		}
	})
	return s
}

// processes returns the processes that have inherited the script's TMPDIR.
func (s *script) processes(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		environ, err := os.ReadFile(path)
		if err != nil {
			continue // exited, or of another user
		}
		if bytes.Contains(environ, []byte("TMPDIR="+s.tmp+"\x00")) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			found = append(found, strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

// checkProcesses waits until the script's processes have exited, which takes a moment.
func (s *script) checkProcesses(t *testing.T) {
	t.Helper()
	var left []string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if left = s.processes(t); len(left) == 0 {
			return
		}
	}
	t.Errorf("processes left behind: %q", left)
}

// checkNothingLeft checks scripts that ended by themselves or by a signal that can be caught.
func (s *script) checkNothingLeft(t *testing.T) {
	t.Helper()
	if left := s.processes(t); len(left) > 0 {
		t.Errorf("processes left behind: %q", left)
	}
	entries, err := os.ReadDir(s.tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Errorf("left behind: %s", entry.Name())
	}
}

// status runs the script and returns its status and output.
func (s *script) status(t *testing.T) (int, []byte) {
	t.Helper()
	output, err := s.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	s.checkNothingLeft(t)
	return s.ProcessState.ExitCode(), output
}

// TestScriptStatus checks some statuses. The tests below check the others, as they start machines
// anyway.
func TestScriptStatus(t *testing.T) {
	for _, test := range []struct {
		name string
		job  string
		want int
	}{
		{"largest", "exit 255", 255},
		{"signal", "kill -SEGV $$", 128 + int(syscall.SIGSEGV)},
		{"panic", "echo c >/proc/sysrq-trigger; sleep 1000", statusFailure},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _ := newScript(t, "exec", "-n", "none", "--", "sh", "-c", test.job).status(t)
			if got != test.want {
				t.Errorf("status %d, want %d", got, test.want)
			}
		})
	}
}

// TestScriptOutput: output and arguments arrive unchanged, with all byte values. The status is 0,
// and messages of the kernel go to the file that the caller has named.
func TestScriptOutput(t *testing.T) {
	want := make([]byte, 100_000)
	for i := range want[:1024] {
		want[i] = byte(i)
	}
	rand.New(rand.NewSource(1)).Read(want[1024:])
	data := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(data, want, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"", "a b", "it's", "$HOME `x` \\ \"", "two\nlines", "*", "-n", "é\xff"}
	for _, arg := range args {
		want = append(append(want, arg...), 0)
	}
	want = append(want, "error"...)

	command := []string{"exec", "-n", "none", "-f", data, "--",
		"sh", "-c", `cat data; printf '%s\0' "$@"; printf error >&2`, "sh"}
	s := newScript(t, append(command, args...)...)
	s.Dir = t.TempDir()
	s.Env = append(s.Env, "VM_CONSOLE=console")
	status, got := s.status(t)
	if status != 0 {
		t.Errorf("status %d, want 0", status)
	}
	if console, err := os.ReadFile(filepath.Join(s.Dir, "console")); !bytes.Contains(console, []byte("init: job starts")) {
		t.Errorf("the console is %q, %v", console, err)
	}
	if !bytes.Equal(got, want) {
		i := 0
		for i < len(got) && i < len(want) && got[i] == want[i] {
			i++
		}
		t.Errorf("%d bytes of output, want %d; the first that differs is %d", len(got), len(want), i)
	}
}

func TestScriptLimit(t *testing.T) {
	s := newScript(t, "exec", "-n", "none", "-t", "1", "--", "sleep", "1000")
	if got, _ := s.status(t); got != statusLimit {
		t.Errorf("status %d, want %d", got, statusLimit)
	}
	if !strings.Contains(s.stderr.String(), "time limit") {
		t.Error("no message about the time limit")
	}
}

func TestScriptNoMachine(t *testing.T) {
	s := newScript(t, "exec", "-n", "none", "--", "true")
	s.Env = append(s.Env, "VM_MEMORY=none")
	if got, _ := s.status(t); got != statusFailure {
		t.Errorf("status %d, want %d", got, statusFailure)
	}
}

func TestScriptUnknownNetwork(t *testing.T) {
	s := newScript(t, "exec", "-n", "ethernet", "--", "true")
	if got, _ := s.status(t); got != statusFailure {
		t.Errorf("status %d, want %d", got, statusFailure)
	}
	if !strings.Contains(s.stderr.String(), "unknown network ethernet") {
		t.Error("the reason is not told")
	}
}

// TestScriptNoTests: scripts/test-rxe fails if there are no tests to run.
func TestScriptNoTests(t *testing.T) {
	for _, directory := range []string{"uct/ib/verb", "internal/cpu"} {
		t.Run(directory, func(t *testing.T) {
			s := newScript(t, "uct/ib/verbs", directory)
			s.Path = filepath.Join(filepath.Dir(s.Path), "test-rxe")
			if got, _ := s.status(t); got != 2 {
				t.Errorf("status %d, want 2", got)
			}
			if !strings.Contains(s.stderr.String(), "no tests that need a device in "+directory) {
				t.Error("the reason is not told")
			}
		})
	}
}

// start runs the script until its command has printed that it is ready.
func (s *script) start(t *testing.T) *bufio.Reader {
	t.Helper()
	pipe, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Process.Signal(syscall.SIGTERM) // already exited, if the test has passed
		_ = s.Wait()
	})
	output := bufio.NewReader(pipe)
	if line, err := output.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the first line is %q, %v", line, err)
	}
	return output
}

func TestScriptSignal(t *testing.T) {
	// Processes in the background of a shell ignore SIGINT, and so do their children, unless they
	// catch it.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT)
	t.Cleanup(func() { signal.Stop(caught) })
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(fmt.Sprint(sig), func(t *testing.T) {
			s := newScript(t, "exec", "-n", "none", "--", "sh", "-c", "echo ready; sleep 1000")
			output := s.start(t)
			if err := s.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, output); err != nil {
				t.Error(err)
			}
			_ = s.Wait() // killed, which is checked below
			if ws := s.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != sig {
				t.Errorf("ended by %v, want signal %v", s.ProcessState, sig)
			}
			if sig == syscall.SIGKILL {
				s.checkProcesses(t) // files remain
			} else {
				s.checkNothingLeft(t)
			}
		})
	}
}

// TestScriptReaderGone: a machine is stopped when its output has no reader any more.
func TestScriptReaderGone(t *testing.T) {
	s := newScript(t, "exec", "-n", "none", "--", "sh", "-c", "echo ready; yes")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.Stdout = w
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	_, err = io.ReadFull(r, make([]byte, len("ready\n")))
	r.Close()
	_ = s.Wait() // the status is checked below
	if err != nil {
		t.Error(err)
	}
	if got, want := s.ProcessState.ExitCode(), 128+int(syscall.SIGPIPE); got != want {
		t.Errorf("status %d, want %d", got, want)
	}
	s.checkNothingLeft(t)
}

// TestScriptPair: two machines share a network, and end with the first command that fails.
func TestScriptPair(t *testing.T) {
	s := newScript(t, "pair", "--", "sh", "-c", `echo "I am $VM_HOST"
		if [ "$VM_HOST" = 1 ]; then nc -l -p 1000; sleep 1000; fi
		until echo | nc 10.9.0.1 1000; do sleep 0.1; done
		exit 9`)
	status, output := s.status(t)
	if status != 9 {
		t.Errorf("status %d, want 9", status)
	}
	for _, line := range []string{"1: I am 1\n", "2: I am 2\n"} {
		if !strings.Contains(string(output), line) {
			t.Errorf("output %q lacks %q", output, line)
		}
	}
}
