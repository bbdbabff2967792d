//go:build linux

package ucptest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
)

// confinedVar is the environment variable that names the test to run in a process with namespaces
// of its own.
const confinedVar = "CONFINED_TEST"

// confined runs the calling test again in a process with its own namespaces (flags of clone), and
// reports whether this is that process. In the original process the test is over then. It is
// skipped if namespaces are not available.
func confined(t *testing.T, namespaces uintptr) bool {
	t.Helper()
	if os.Getenv(confinedVar) == t.Name() {
		return true
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(t.Name(), "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	cmd := exec.Command(program, "-test.run", strings.Join(parts, "/"), "-test.v")
	cmd.Env = append(os.Environ(), confinedVar+"="+t.Name())
	attr := &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	if namespaces != 0 && os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		if namespaces != 0 {
			needtest.Right(t, fmt.Sprintf("the right to make namespaces: %v", err))
		}
		t.Fatal(err)
	}
	err = cmd.Wait()
	switch text := out.String(); {
	case err != nil:
		t.Errorf("%v\n%s", err, text)
	case strings.Contains(text, "--- SKIP: "+t.Name()):
		t.Skip(text)
	case !strings.Contains(text, "--- PASS: "+t.Name()):
		t.Errorf("not run:\n%s", text)
	}
	return false
}

// mountShm mounts a /dev/shm of the process's own with these options, possibly a read-only one.
func mountShm(t *testing.T, options string, flags uintptr) {
	t.Helper()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			needtest.Right(t, fmt.Sprintf("the right to mount: %s: %v", what, err))
		}
	}
	must("private mounts", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must("/dev/shm", unix.Mount("tmpfs", "/dev/shm", "tmpfs", flags, options))
}

// setShmLimit sets a limit of the process's IPC namespace.
func setShmLimit(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/kernel/"+name, []byte(value), 0); err != nil {
		needtest.Right(t, fmt.Sprintf("the right to set limits of an IPC namespace: %v", err))
	}
}
