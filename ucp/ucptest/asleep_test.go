//go:build linux

package ucptest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
)

// asleepVar is the environment variable that makes the test binary a process whose worker sleeps
// for the given time.
const asleepVar = "TIME_TO_SLEEP"

// TestAsleep checks that a worker with nothing to do makes no system calls while it sleeps, nor
// does one whose peer does not read. Over shared memory it checks once a second for peers in other
// network namespaces. A few calls are allowed, as those of Go's runtime cannot be distinguished.
func TestAsleep(t *testing.T) {
	for _, c := range []struct {
		name, transport string
		blocked         bool
		background      bool
		aSecond         int
	}{
		{"tcp", "tcp", false, false, 0},
		{"posix", "posix", false, false, 40},
		{"posix blocked", "posix", true, false, 40},
		{"tcp background", "tcp", false, true, 0},
		{"posix background", "posix", false, true, 80},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d, err := time.ParseDuration(os.Getenv(asleepVar)); err == nil {
				tr := byName(t, c.transport)
				if c.background {
					tr = tr.attended()
				}
				sleepFor(t, tr, d, c.blocked)
				return
			}
			if race.Enabled {
				t.Skip("the race detector makes system calls of its own")
			}
			needtest.Strace(t)
			n, took := callsAsleep(t, asleepVar+"=2s")
			t.Logf("%d system calls in %v", n, took)
			if limit := 50 + c.aSecond*int(took/time.Second); n > limit {
				t.Fatalf("%d system calls in %v, at most %d are allowed", n, took, limit)
			}
		})
	}
}

// sleepFor sleeps in a wait for which no event occurs, or, if blocked, with a send for which there
// is no room.
func sleepFor(t *testing.T, tr transport, d time.Duration, blocked bool) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	r.settle()
	var req *ucp.Request
	for blocked && req == nil { // until the ring is full
		var err error
		if req, err = ep.TagSend(1, make([]byte, 8), nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	mark(t, sleepBegins)
	if tr.background {
		<-ctx.Done()
		mark(t, sleepEnds)
		return
	}
	a.arm()
	for a.Wait(ctx) == nil {
		a.Progress()
	}
	mark(t, sleepEnds)
	if blocked {
		r.must(req, nil)
	}
}

// Names of files that do not exist. The sleep is between the system calls that look for them.
const sleepBegins, sleepEnds = "/the/sleep/begins", "/the/sleep/ends"

// mark makes a system call that callsAsleep finds.
func mark(t *testing.T, name string) {
	if _, err := os.Lstat(name); err == nil {
		t.Fatalf("%s exists", name)
	}
}

// callsAsleep runs this test in a process of its own, with a variable in its environment. It
// returns the number of system calls between the two marks, and the time between them. The calls by
// which Go's runtime starts and stops threads are not counted.
func callsAsleep(t *testing.T, variable string) (n int, took time.Duration) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command("strace", "-f", "-ttt", "-o", file, "-e", "trace=!futex,nanosleep,clock_nanosleep,sched_yield,tgkill,getpid,"+
		"rt_sigreturn,madvise,clone,clone3,mmap,munmap,mprotect,sigaltstack,rt_sigprocmask,gettid,set_robust_list,rseq,prctl,exit",
		os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var began time.Duration
	for line := range strings.Lines(string(text)) { // "4711  1712345678.123456 read(3, …"
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		seconds, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		at := time.Duration(seconds * float64(time.Second))
		switch {
		case strings.Contains(line, sleepBegins):
			began = at
		case strings.Contains(line, sleepEnds):
			return n, at - began
		case began > 0 && f[2] != "<..." && f[2] != "---" && f[2] != "+++":
			n++
		}
	}
	t.Fatal("the process has not slept")
	return 0, 0
}
