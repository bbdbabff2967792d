//go:build linux

package host

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// childEnv makes the test binary a child that waits for the end of its input.
const childEnv = "HOST_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

func TestProcessLife(t *testing.T) {
	ucttest.NoLeaks(t)
	cmd := child(t)
	p, err := Find(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Alive() {
		t.Error("a running process is dead")
	}
	if other := (Process{PID: p.PID, Start: p.Start + 1}); other.Alive() {
		t.Error("a process that started at another time is alive")
	}
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if !p.Alive() {
		t.Error("a stopped process is dead")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Wait for the exit without reaping: the process is still in /proc.
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, p.PID, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if p.Alive() {
		t.Error("a killed process that nobody waited for is alive")
	}
	if _, err := Find(p.PID); !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("Find of a killed process: %v", err)
	}
	cmd.Wait()
	if p.Alive() {
		t.Error("a killed process is alive")
	}
	if _, err := Find(p.PID); !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("Find of a process that is gone: %v", err)
	}
}

func TestFindRefuses(t *testing.T) {
	for _, pid := range []int{0, -1, -1 << 31, MaxPID + 1, 1<<31 - 1, math.MinInt} {
		if p, err := Find(pid); !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("Find(%d) = %+v, %v; want %v", pid, p, err, ucs.ErrUnreachable)
		}
	}
}

func TestSelf(t *testing.T) {
	p, err := Self()
	if err != nil || p.PID != os.Getpid() || !p.Alive() {
		t.Errorf("Self = %+v, %v, alive %v", p, err, p.Alive())
	}
}

func TestAliveDoesNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	p, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	gone := Process{PID: MaxPID, Start: 1}
	if n := testing.AllocsPerRun(100, func() { p.Alive(); gone.Alive() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// statLine is /proc/PID/stat with some fields set.
func statLine(name string, state byte, threads int, start string) string {
	return fmt.Sprintf("1234 (%s) %c 1 2 3 0 -1 4194304 5 6 7 8 9 10 11 12 20 0 %d 0 %s 16 17", name, state, threads, start)
}

func TestParseStat(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       stat
		dead       bool
	}{
		{"usual", statLine("cat", 'R', 1, "4711"), stat{'R', 1, 4711}, false},
		{"name of parentheses", statLine(") Z 1 (", 'S', 3, "4711"), stat{'S', 3, 4711}, false},
		{"zombie", statLine("x", 'Z', 1, "4711"), stat{'Z', 1, 4711}, true},
		{"first thread ended", statLine("x", 'Z', 2, "4711"), stat{'Z', 2, 4711}, false},
		{"dead", statLine("x", 'X', 0, "4711"), stat{'X', 0, 4711}, true},
		{"largest", statLine("x", 'R', 1, "18446744073709551615"), stat{'R', 1, 1<<64 - 1}, false},
	} {
		st, ok := parseStat([]byte(tc.text))
		if !ok || st != tc.want || st.dead() != tc.dead {
			t.Errorf("%s: %+v, %v, dead %v; want %+v, dead %v", tc.name, st, ok, st.dead(), tc.want, tc.dead)
		}
	}
	usual := statLine("cat", 'R', 1, "4711")
	for n := range strings.Index(usual, "4711") + len("4711") + 1 {
		if st, ok := parseStat([]byte(usual[:n])); ok {
			t.Errorf("parseStat(%q) = %+v", usual[:n], st)
		}
	}
	for _, bad := range []string{"", "18446744073709551616", "99999999999999999999", "-1", "4x"} {
		if st, ok := parseStat([]byte(statLine("x", 'R', 1, bad))); ok && bad != "" {
			t.Errorf("start %q gives %+v", bad, st)
		}
	}
}

func TestOtherError(t *testing.T) {
	// Running out of descriptors must not make a process look dead.
	p, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 0, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	alive := p.Alive()
	_, err = Self()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !alive {
		t.Error("dead for lack of descriptors")
	}
	if !errors.Is(err, unix.EMFILE) || !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("Find without descriptors: %v", err)
	}
}

// FuzzParseStat compares the parser with a simple one.
func FuzzParseStat(f *testing.F) {
	f.Add(statLine(") Z 1 (", 'S', 3, "4711"))
	fuzztest.Run(f, func(t *testing.T, text string) {
		var want stat
		wantOK := false
		if i := strings.LastIndexByte(text, ')'); i >= 0 {
			words := strings.FieldsFunc(text[i+1:], func(r rune) bool { return r == ' ' })
			if complete := len(words) > 20 || len(words) == 20 && strings.HasSuffix(text, " "); complete {
				threads, err1 := strconv.ParseUint(words[17], 10, 64)
				start, err2 := strconv.ParseUint(words[19], 10, 64)
				if wantOK = err1 == nil && err2 == nil; wantOK {
					want = stat{words[0][0], threads, start}
				}
			}
		}
		if st, ok := parseStat([]byte(text)); ok != wantOK || ok && st != want {
			t.Fatalf("parseStat(%q) = %+v, %v; want %+v, %v", text, st, ok, want, wantOK)
		}
	})
}

// otherVar makes TestOtherNetwork print what it finds out about a process.
const otherVar = "HOST_TEST_OTHER_NETWORK"

// TestOtherNetwork asks about this process from other namespaces. In another user namespace, the
// kernel does not reveal the namespaces of this one.
func TestOtherNetwork(t *testing.T) {
	if pid, err := strconv.Atoi(os.Getenv(otherVar)); err == nil {
		fmt.Printf("other network: %v\n", Process{PID: pid}.OtherNetwork())
		return
	}
	for _, c := range []struct {
		name       string
		namespaces uintptr
		want       bool
	}{
		{"none", 0, false},
		{"network", unix.CLONE_NEWNET, true},
		{"user", unix.CLONE_NEWUSER, false},
		{"user and network", unix.CLONE_NEWUSER | unix.CLONE_NEWNET, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestOtherNetwork$", "-test.v")
			cmd.Env = append(os.Environ(), otherVar+"="+strconv.Itoa(os.Getpid()))
			cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: c.namespaces}
			if c.namespaces&unix.CLONE_NEWUSER != 0 {
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
				cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
			}
			out, err := cmd.CombinedOutput()
			if c.namespaces&unix.CLONE_NEWUSER != 0 {
				needtest.UserNamespace(t, err)
			}
			if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
				needtest.Right(t, fmt.Sprintf("the right to make namespaces: %v", err))
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if want := fmt.Sprintf("other network: %v\n", c.want); !strings.Contains(string(out), want) {
				t.Errorf("says %s, want %s", out, want)
			}
		})
	}
	if !(Process{PID: MaxPID}).OtherNetwork() {
		t.Error("nothing is known of a process, and it can wake us")
	}
}
