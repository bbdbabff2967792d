//go:build linux

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// process is a running program. The end of its output that is not read elsewhere is kept for error
// messages.
type process struct {
	cmd    *exec.Cmd
	output *tail
	ended  chan struct{} // closed when err is set
	err    error
}

// startProcess starts cmd and collects its output. The goroutine that calls it determines the
// network namespace: see place.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, output: new(tail), ended: make(chan struct{})}
	cmd.Stderr = p.output
	if cmd.Stdout == nil {
		cmd.Stdout = p.output
	}
	// A child that has inherited the pipes must not keep Wait from returning.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// wait returns how the program has exited, or kills it after limit and returns an error.
func (p *process) wait(limit time.Duration) error {
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.kill()
		return fmt.Errorf("%s did not end within %v\n%s", p.cmd.Path, limit, p.output)
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w\n%s", p.cmd.Path, p.err, p.output)
	}
	return nil
}

// kill kills the program and waits until it has exited.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if the program has exited already
	<-p.ended
}

// tail keeps the last bytes that are written to it.
type tail struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

const tailSize = 4096

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// asleep waits until no thread of the program is running.
func (p *process) asleep(t *testing.T) {
	t.Helper()
	quiet := 0
	for end := time.Now().Add(exitLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("%s has no threads: %v", p.cmd.Path, err)
		}
		quiet++
		for _, name := range threads {
			stat, err := os.ReadFile(name)
			// The state comes after the name, which is in parentheses.
			if _, after, _ := strings.Cut(string(stat), ") "); err == nil && strings.HasPrefix(after, "R") {
				quiet = 0
			}
		}
		if quiet == 10 {
			return
		}
	}
	t.Fatalf("%s does not sleep", p.cmd.Path)
}
