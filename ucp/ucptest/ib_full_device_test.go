//go:build linux

package ucptest

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// fullChild is the environment variable with the limit, in KiB, for the processes of
// TestDeviceFull.
const fullChild = "UCPTEST_FULL"

// TestDeviceFull opens workers as an unprivileged user until the memory that the user may lock is
// used up. The limits differ by less than a worker needs, so that different transports are the
// first without room. Peers can connect to each worker that NewWorker returns. Its errors name the
// limit and a remedy.
func TestDeviceFull(t *testing.T) {
	if limit := os.Getenv(fullChild); limit != "" {
		openUntilFull(t, limit)
		return
	}
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("the devices are those of the VM, make test-rxe runs this there")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unreachable := 0
	for limit := 8192; limit > 8192-1400; limit -= 300 {
		cmd := exec.Command(exe, "-test.run=^TestDeviceFull$", "-test.v")
		cmd.Env = append(os.Environ(), fullChild+"="+strconv.Itoa(limit))
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestDeviceFull") {
			t.Errorf("limit of %d KiB: %v\n%s", limit, err, out)
		}
		if strings.Contains(string(out), "no peer could connect") {
			unreachable++
		}
	}
	if unreachable == 0 {
		t.Error("no worker was refused that had a transport: nothing is shown by that")
	}
}

func openUntilFull(t *testing.T, text string) {
	kib, err := strconv.ParseUint(text, 0, 32)
	if err != nil {
		t.Fatal(err)
	}
	limit := kib << 10
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, cable(t, "rc_v"))
	r.log.Allow("cannot allocate memory")
	var refused error
	for len(r.sides) < 100 && refused == nil {
		ctx, err := ucp.NewContext(ucp.ContextParams{Features: features}, r.config())
		if err != nil {
			t.Fatal(err)
		}
		w, err := ctx.NewWorker(ucp.WorkerParams{})
		if refused = err; err != nil {
			if err := ctx.Close(); err != nil {
				t.Error(err)
			}
			break
		}
		r.sides = append(r.sides, &side{Worker: w, rig: r, ctx: ctx, fd: -1})
	}
	t.Logf("%d workers; %v", len(r.sides), refused)
	if !errors.Is(refused, ucs.ErrNoMemory) && !errors.Is(refused, ucs.ErrIO) || !strings.Contains(refused.Error(), "ulimit -l") {
		t.Errorf("a worker is refused with %v", refused)
	}
	if len(r.sides) < 4 {
		t.Fatalf("%d workers", len(r.sides))
	}
	// A connection needs pinned memory: one worker frees its own.
	r.sides[1].close()
	r.sides = append(r.sides[:1], r.sides[2:]...)
	first, last := r.sides[0], r.sides[len(r.sides)-1]
	there, back := first.connect(last), last.connect(first)
	r.exchange(there, last, back, first)
}
