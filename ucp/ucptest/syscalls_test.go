//go:build linux

package ucptest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
)

// timesVar is the environment variable that makes the test binary a process that only repeats, this
// many times, what a test counts the system calls of.
const timesVar = "TIMES_TO_DO"

// times returns this number, 0 in other processes.
func times() int {
	n, _ := strconv.Atoi(os.Getenv(timesVar))
	return n
}

// TestNoSystemCalls checks that over shared memory the number of system calls does not depend on
// the number of messages. Calls of Go's scheduler are not counted.
func TestNoSystemCalls(t *testing.T) {
	if n := times(); n > 0 {
		exchangeMessages(t, n)
		return
	}
	if race.Enabled {
		t.Skip("rare events are also looked for by time, and the race detector takes its time")
	}
	few, many := 100_000, 1_000_000
	if testing.Short() {
		few, many = 10_000, 100_000
	}
	difference := countTimes(t, many) - countTimes(t, few)
	t.Logf("%d more system calls for %d more messages", difference, many-few)
	if limit := (many - few) / 1000; difference > limit {
		t.Errorf("%d more messages took %d more system calls, at most %d are allowed", many-few, difference, limit)
	}
}

// TestIdleSystemCalls checks that a worker that has been idle for long does not make a system call
// in each round of progress, however many endpoints it has.
func TestIdleSystemCalls(t *testing.T) {
	if n := times(); n > 0 {
		r := newRig(t, byName(t, "tcp"))
		a, b := r.pair()
		for range 50 {
			r.warm(a.connect(b), b)
		}
		r.settle()
		for range n {
			a.Progress()
		}
		return
	}
	if race.Enabled {
		t.Skip("rounds take too long for one of them to be among many in a moment")
	}
	const few, many = 10_000, 110_000
	difference := countTimes(t, many) - countTimes(t, few)
	t.Logf("%d more system calls for %d more rounds", difference, many-few)
	if limit := (many - few) * 9 / 10; difference > limit {
		t.Errorf("%d more rounds took %d more system calls, at most %d are allowed", many-few, difference, limit)
	}
}

// TestOpeningSystemCalls checks how many system calls it takes to open a context and a worker with
// all transports that exist on every machine.
func TestOpeningSystemCalls(t *testing.T) {
	if n := times(); n > 0 {
		local := transport{name: "all", settings: []setting{{"TLS", "self,posix,sysv,cma,tcp"}, {"NET_DEVICES", "lo"}}}
		for range n {
			newRig(t, local).open().close()
		}
		return
	}
	if race.Enabled {
		t.Skip("the race detector makes system calls of its own")
	}
	const few, many, most = 1, 101, 147
	// How often the runtime polls for events depends on the load of the machine.
	const polls = "epoll_pwait"
	each := (countTimes(t, many, polls) - countTimes(t, few, polls)) / (many - few)
	t.Logf("%d system calls", each)
	if each > most {
		t.Errorf("a context and a worker take %d system calls, at most %d are allowed", each, most)
	}
}

// exchangeMessages sends n messages of two sizes in each direction.
func exchangeMessages(t *testing.T, n int) {
	r := newRig(t, byName(t, "posix"))
	a, b := r.pair()
	ab, ba := a.connect(b), b.connect(a)
	bufs := [][]byte{make([]byte, 8), make([]byte, 4096)}
	for i := range n {
		ep, from, to := ab, a, b
		if i%2 == 1 {
			ep, from, to = ba, b, a
		}
		buf := bufs[i/2%2]
		rreq, err := to.TagRecv(1, ucp.FullMask, buf, nil)
		if err != nil {
			t.Fatal(err)
		}
		sreq, err := ep.TagSend(1, buf, nil)
		if err != nil {
			t.Fatal(err)
		}
		for !rreq.Done() || !sreq.Done() {
			to.Progress()
			from.Progress()
		}
		rreq.Free()
		sreq.Free()
	}
}

// countTimes counts the system calls of this test in a process of its own, which repeats the test's
// actions this many times.
func countTimes(t *testing.T, times int, but ...string) int {
	t.Helper()
	needtest.Strace(t)
	return countSystemCalls(t, timesVar+"="+strconv.Itoa(times), but...)
}

// countSystemCalls runs this test in a process of its own, with a variable in its environment, and
// counts its system calls, except for those in but.
func countSystemCalls(t *testing.T, variable string, but ...string) int {
	t.Helper()
	file := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command("strace", "-f", "-c", "-o", file,
		"-e", "trace=!"+strings.Join(append(but, "futex,nanosleep,clock_nanosleep,sched_yield,tgkill,getpid,rt_sigreturn,madvise"), ","),
		os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// "100.00    0.001234           1      1234        56 total"
		fields := strings.Fields(lines.Text())
		if len(fields) >= 5 && fields[len(fields)-1] == "total" {
			n, err := strconv.Atoi(fields[3])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no total in the summary of strace")
	return 0
}
