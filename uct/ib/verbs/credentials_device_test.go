//go:build linux

package verbs_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestCredentials changes the credentials of the process after the device was opened. From then on
// the kernel refuses write(2), and sends must still work.
func TestCredentials(t *testing.T) {
	const child = "VERBS_CREDENTIALS_CHILD"
	if os.Getenv(child) == "" {
		deviceRig(t)
		if os.Getuid() != 0 {
			needtest.Right(t, "root, to change credentials")
		}
		cmd := exec.Command(must(os.Executable())(t), "-test.run=^TestCredentials$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestCredentials") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	r := deviceRig(t)
	d := device(t)
	f := must(uverbs.Open(d.Path, d.Uverbs, d.Rdev))(t)
	defer f.Close()
	a, b := r.pair(t, verbs.RC)
	a.works(t, b, 1)
	refused := func() bool {
		_, errno := f.Write(make([]byte, 8)) // not a command
		return errors.Is(errno, syscall.EACCES)
	}
	if refused() {
		t.Error("refused before anything has changed")
	}
	check(t, syscall.Setgroups([]int{1, 2, 3}))
	if !refused() {
		t.Error("this kernel does not look at credentials: the test is worth nothing")
	}
	a.works(t, b, 2)
	check(t, syscall.Setuid(65534))
	for i := range 20 {
		a.works(t, b, byte(i))
	}
	// Objects created before remain usable until they are closed.
	b.newQP(t, verbs.RC)
	check(t, b.qp.Close())
}
