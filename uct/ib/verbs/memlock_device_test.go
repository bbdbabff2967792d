//go:build linux

package verbs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
)

// TestMemlock registers more memory than RLIMIT_MEMLOCK allows, in a process without the right to
// exceed it.
func TestMemlock(t *testing.T) {
	const child = "VERBS_MEMLOCK_CHILD"
	if os.Getenv(child) == "" {
		deviceRig(t)
		if os.Getuid() != 0 {
			needtest.Right(t, "root, to start a process without rights")
		}
		exe := must(os.Executable())(t)
		cmd := exec.Command(exe, "-test.run=^TestMemlock$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EACCES) {
			needtest.Right(t, fmt.Sprintf("a program that everybody may run: %v", err))
		}
		if err != nil || !strings.Contains(string(out), "--- PASS: TestMemlock") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	const limit = 256 << 10
	check(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}))
	r := deviceRig(t)
	pd := must(r.open(t).AllocPD())(t)
	small := must(pd.RegMR(make([]byte, limit/4), fullAccess))(t)
	_, err := pd.RegMR(make([]byte, 2*limit), fullAccess)
	wantErr(t, err, ucs.ErrNoMemory, "beyond the limit")
	if err != nil && !strings.Contains(err.Error(), "524288 bytes wanted, the process may lock 262144 bytes: raise the limit (ulimit -l") {
		t.Error(err)
	}
	check(t, small.Close())
	check(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}))
	_, err = pd.RegMR(make([]byte, 8), fullAccess)
	wantErr(t, err, ucs.ErrNoMemory, "a limit of 0")
	if err != nil && !strings.Contains(err.Error(), "8 bytes wanted, the process may lock 0 bytes: raise the limit (ulimit -l") {
		t.Error(err)
	}
}
