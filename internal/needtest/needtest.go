// Package needtest is for tests that need something of the machine: a tool, a right, or
// a call of the kernel. Where it is missing they are skipped by name. Where scripts/setup
// has provided everything, which REQUIRE_TEST_TOOLS says, a skip would hide that something
// is not tested, and is a failure: of tools always, of rights where the tests are run by
// a root that has them all, of calls of the kernel where no filter refuses any. The root of
// a container as docker makes it has few rights and a filter.
//
// It also says whether all of many cases are wanted that are like one another.
package needtest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
)

// set says that the set-up script has run.
var set = os.Getenv("REQUIRE_TEST_TOOLS") != ""

// limits says what takes rights from the process, or is empty: that is a root to whom
// everything is allowed that tests do. It is from the start of the process, as some tests
// become somebody else.
var limits = limited(os.Geteuid(), "/proc/self")

// filtered says that a filter (seccomp) decides which calls the kernel takes.
var filtered = status("/proc/self", "Seccomp") == "2"

// capabilities are those that tests use, with their bits of uapi/linux/capability.h.
var capabilities = []struct {
	name string
	bit  uint
}{
	{"CAP_CHOWN", 0},
	{"CAP_DAC_OVERRIDE", 1},
	{"CAP_KILL", 5},
	{"CAP_SETUID", 7},
	{"CAP_SETGID", 6},
	{"CAP_NET_ADMIN", 12},
	{"CAP_IPC_LOCK", 14},
	{"CAP_IPC_OWNER", 15},
	{"CAP_SYS_PTRACE", 19},
	{"CAP_SYS_ADMIN", 21},
}

// limited returns why a user has not all rights. The root of a user namespace, which maps
// some users to others, has none outside of it. The directory is the process's in /proc.
func limited(uid int, directory string) string {
	if uid != 0 {
		return "this is not root"
	}
	if !wholeMachine(filepath.Join(directory, "uid_map")) {
		return "this is the root of a user namespace"
	}
	if without := lacking(directory); len(without) > 0 {
		return "this root is without " + strings.Join(without, " ")
	}
	if status(directory, "Seccomp") == "2" {
		return "a seccomp filter is over this root"
	}
	if !rootMounted(filepath.Join(directory, "mountinfo")) {
		return "this is a chroot, in which mounts cannot be made private"
	}
	return ""
}

// lacking returns which of the capabilities a process has not. It is taken to have all
// where the system does not tell.
func lacking(directory string) (without []string) {
	set, err := strconv.ParseUint(status(directory, "CapEff"), 16, 64)
	if err != nil {
		return nil
	}
	for _, c := range capabilities {
		if set&(1<<c.bit) == 0 {
			without = append(without, c.name)
		}
	}
	return without
}

// without are the capabilities that the process has not.
var without = lacking("/proc/self")

// status returns a field of a process's file of that name, or nothing.
func status(directory, field string) string {
	text, _ := os.ReadFile(filepath.Join(directory, "status"))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// rootMounted reads a table of mounts and reports whether the root directory is one of them,
// as it is but in a chroot to a plain directory. It is taken to be one where the system does
// not tell.
func rootMounted(file string) bool {
	text, err := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == "/" {
			return true
		}
	}
	return err != nil
}

// wholeMachine reads a map of users: that of the machine's own namespace has all,
// and leaves them as they are.
func wholeMachine(file string) bool {
	text, err := os.ReadFile(file)
	f := strings.Fields(string(text))
	return err == nil && len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295"
}

// Full says that tests run all of many cases that are like one another: FULL_TESTS is set.
// Else they run what of them differs.
var Full = os.Getenv("FULL_TESTS") != ""

// Tool skips the test because a tool, or something else that can be installed, is
// missing.
func Tool(t testing.TB, what string) {
	t.Helper()
	missing(t, what, set)
}

// Right skips the test because the process may not do something that root may.
func Right(t testing.TB, what string) {
	t.Helper()
	if limits != "" {
		what += " (" + limits + ")"
	}
	missing(t, what, set && limits == "")
}

// Capability skips the test where the process is not root, or a root without a capability,
// and says what it takes that for.
func Capability(t testing.TB, name, purpose string) {
	t.Helper()
	if limits != "" && (os.Geteuid() != 0 || slices.Contains(without, name)) {
		Right(t, "root with "+name+", "+purpose)
	}
}

// Call skips the test because the kernel refuses something that everybody may do.
func Call(t testing.TB, what string) {
	t.Helper()
	if filtered {
		what += " (there is a seccomp filter)"
	}
	missing(t, what, set && !filtered)
}

// UserNamespace skips the test if a process could not get a user namespace of its own because
// of a limit that holds for root as well: the kernel makes none for a process in a chroot, and
// no more than the system allows.
func UserNamespace(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, syscall.EPERM):
		missing(t, "a user namespace: none is made in a chroot, or for this user: "+err.Error(), false)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EUSERS):
		missing(t, "a user namespace: the system's limit of them is reached: "+err.Error(), false)
	}
}

// Refused skips the test if an error is of a call that a filter may have refused.
func Refused(t testing.TB, err error) {
	t.Helper()
	if filtered && (errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported)) {
		Call(t, err.Error())
	}
}

// Strace skips the test where there is no strace, or where it may not trace.
func Strace(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		Tool(t, "strace")
	}
	if out, err := exec.Command("strace", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		text, _, _ := strings.Cut(string(out), "\n")
		Call(t, "ptrace(2), for strace: "+text)
	}
}

// Goroutines skips a test under the race detector in which one goroutine does everything:
// it would take five to ten times as long there, and show nothing.
func Goroutines(t testing.TB) {
	t.Helper()
	if race.Enabled {
		t.Skip("one goroutine does everything, which is nothing for the race detector")
	}
}

func missing(t testing.TB, what string, required bool) {
	t.Helper()
	if required {
		t.Fatalf("missing although the set-up script has run: %s", what)
	}
	t.Skip("missing: " + what)
}
