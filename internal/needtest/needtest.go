// Package needtest is for tests that need something of the machine: a tool, a capability, or a
// system call. A test skips, and names what is missing. scripts/setup provides everything and sets
// REQUIRE_TEST_TOOLS; a skip would then hide that something is not tested, so it is a failure:
// always for tools, for capabilities if the tests run as a root that has them all, for system calls
// if no seccomp filter is active. Root in a Docker container has few capabilities and a filter.
//
// It also says whether tests should run all of many similar cases.
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
	"github.com/ucx-go/ucx/internal/sys"
)

// set says that scripts/setup has run.
var set = os.Getenv("REQUIRE_TEST_TOOLS") != ""

// limits is the reason why this process does not have all rights, or empty for a root that may do
// everything that the tests do. It is read at the start of the process, because some tests change
// the user.
var limits = limited(os.Geteuid(), "/proc/self")

// filtered says that a seccomp filter decides which system calls are allowed.
var filtered = status("/proc/self", "Seccomp") == "2"

// capabilities lists the capabilities that tests use, with their bits (uapi/linux/capability.h).
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

// limited returns the reason why a user does not have all rights, or "". The root of a user
// namespace has no rights outside of it. directory is the process's directory in /proc.
func limited(uid int, directory string) string {
	if uid != 0 {
		return "not root"
	}
	if !sys.MapsAllUsers(directory) {
		return "root of a user namespace"
	}
	if without := lacking(directory); len(without) > 0 {
		return "root lacks " + strings.Join(without, " ")
	}
	if status(directory, "Seccomp") == "2" {
		return "root with a seccomp filter"
	}
	if !rootMounted(filepath.Join(directory, "mountinfo")) {
		return "root in a chroot, where mounts cannot be made private"
	}
	return ""
}

// lacking returns the names of the listed capabilities that a process does not have. It returns
// none if the system does not report them. The parameter directory is the process's directory in
// /proc.
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

// without holds the capabilities that this process does not have.
var without = lacking("/proc/self")

// status returns a field of a process's status file, or "".
func status(directory, field string) string {
	text, _ := os.ReadFile(filepath.Join(directory, "status"))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// rootMounted reads a mountinfo file and reports whether the root directory is a mount point, which
// it is except in a chroot to a plain directory. It returns true if the file cannot be read.
func rootMounted(file string) bool {
	text, err := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == "/" {
			return true
		}
	}
	return err != nil
}

// Full says that tests run all of many similar cases: FULL_TESTS is set. Otherwise they run a
// selection of different ones.
var Full = os.Getenv("FULL_TESTS") != ""

// Tool skips the test because a tool, or something else that can be installed, is missing. If
// scripts/setup has run, the test fails instead.
func Tool(t testing.TB, what string) {
	t.Helper()
	missing(t, what, set)
}

// Right skips the test because the process lacks a right that root has. If scripts/setup has run
// and the process is a root with all rights, the test fails instead.
func Right(t testing.TB, what string) {
	t.Helper()
	if limits != "" {
		what += " (" + limits + ")"
	}
	missing(t, what, set && limits == "")
}

// Capability skips the test if the process is not root, or is a root without the capability. The
// message names the purpose.
func Capability(t testing.TB, name, purpose string) {
	t.Helper()
	if limits != "" && (os.Geteuid() != 0 || slices.Contains(without, name)) {
		Right(t, "root with "+name+", "+purpose)
	}
}

// Call skips the test because the kernel refuses a call that needs no rights. If scripts/setup has
// run and there is no seccomp filter, the test fails instead.
func Call(t testing.TB, what string) {
	t.Helper()
	if filtered {
		what += " (there is a seccomp filter)"
	}
	missing(t, what, set && !filtered)
}

// UserNamespace skips the test if a process could not create a user namespace because of a limit
// that also holds for root: the kernel creates none for a process in a chroot, and not more than
// the system's limit.
func UserNamespace(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, syscall.EPERM):
		missing(t, "a user namespace: not allowed in a chroot or for this user: "+err.Error(), false)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EUSERS):
		missing(t, "a user namespace: the system's limit is reached: "+err.Error(), false)
	}
}

// Refused skips the test if err means that a seccomp filter may have refused a system call.
func Refused(t testing.TB, err error) {
	t.Helper()
	if filtered && (errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported)) {
		Call(t, err.Error())
	}
}

// Strace skips the test if strace is missing, or if it is not allowed to trace.
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

// Goroutines skips a test under the race detector that uses one goroutine only: it would take five
// to ten times as long there, and could not find a race.
func Goroutines(t testing.TB) {
	t.Helper()
	if race.Enabled {
		t.Skip("uses one goroutine only, so the race detector cannot find anything")
	}
}

func missing(t testing.TB, what string, required bool) {
	t.Helper()
	if required {
		t.Fatalf("missing although the set-up script has run: %s", what)
	}
	t.Skip("missing: " + what)
}
