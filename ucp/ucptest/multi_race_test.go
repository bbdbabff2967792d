//go:build linux

package ucptest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// sharedVar is the environment variable that makes the test binary a process whose goroutines use a
// worker at the same time, in the thread mode of this name.
const sharedVar = "WORKER_TO_SHARE"

// TestMultiUnasked checks that the race detector reports goroutines that use a worker of another
// thread mode than multi at the same time, and reports nothing in mode multi.
func TestMultiUnasked(t *testing.T) {
	modes := map[string]ucs.ThreadMode{"serialized": ucs.ThreadModeSerialized, "multi": ucs.ThreadModeMulti}
	if mode, ok := modes[os.Getenv(sharedVar)]; ok {
		shareWorker(t, mode)
		return
	}
	if !race.Enabled {
		t.Skip("the program was built without the race detector")
	}
	for name, mode := range modes {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), sharedVar+"="+name)
		out, err := cmd.CombinedOutput()
		reported := strings.Contains(string(out), "WARNING: DATA RACE")
		if misused := mode != ucs.ThreadModeMulti; reported != misused || (err != nil) != misused {
			t.Errorf("%s: reported: %v, %v\n%s", name, reported, err, out)
		}
	}
}

// shareWorker has two goroutines use the worker at the same time.
func shareWorker(t *testing.T, mode ucs.ThreadMode) {
	r := newRig(t, byName(t, "self"))
	a := r.openWith(ucp.ContextParams{Features: features}, ucp.WorkerParams{ThreadMode: mode})
	var g group
	g.Go(func() {
		for range 100 {
			req, err := a.TagRecv(1, ucp.FullMask, nil, nil)
			if err != nil {
				t.Error(err)
				return
			}
			a.Cancel(req)
			req.Free()
		}
	})
	g.Go(func() {
		for range 100 {
			a.Stats()
		}
	})
	g.Wait()
}
