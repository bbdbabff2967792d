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

// sharedVar makes the test binary a process whose goroutines use a worker in the thread
// mode of this name at once.
const sharedVar = "WORKER_TO_SHARE"

// TestMultiUnasked: what goroutines do with a worker at once that is in another mode
// than multi the race detector reports, and of one that is in it nothing.
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

// shareWorker has one goroutine change the worker, and another one look at it.
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
