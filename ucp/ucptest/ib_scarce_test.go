//go:build linux

package ucptest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// Devices on which less and less memory may be pinned, in steps of scarceStep.
const (
	scarceDevices = 16
	scarceStep    = 128 << 10
)

// registerScarce makes them known, to the tests from there on: each device costs whoever
// opens a context some system calls.
var registerScarce = sync.OnceFunc(func() {
	n := verbstest.NewFabric()
	for k := range scarceDevices {
		n.Add(verbstest.Config{Name: fmt.Sprintf("scarce%d", k), Limits: verbstest.Limits{MemLock: int64(k+1) * scarceStep}})
	}
	uct.Register(ibtest.Network("scarce", n))
})

// TestScarceMemory: however little memory a worker with rc and ud may pin, either NewWorker says that
// it is too little, or there can be an endpoint to the worker.
func TestScarceMemory(t *testing.T) {
	registerScarce()
	var refused, made int
	for k := range scarceDevices {
		r := newRig(t, onFabric("scarce", "rc_v").with(setting{"NET_DEVICES", fmt.Sprintf("scarce%d:1", k)}))
		r.log.Allow("")
		ctx, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag}, r.config())
		if err != nil {
			t.Fatal(err)
		}
		if w, err := ctx.NewWorker(ucp.WorkerParams{}); err != nil {
			refused++
		} else {
			made++
			addr, err := w.Address(0)
			if err == nil {
				_, err = w.NewEndpoint(ucp.EndpointParams{Address: addr})
			}
			if err != nil {
				t.Errorf("%d KiB: %v", (k+1)*scarceStep>>10, err)
			}
			w.Close()
		}
		ctx.Close()
	}
	t.Logf("%d refused, %d made", refused, made)
	if refused == 0 || made == 0 {
		t.Error("the limits are not around what a worker needs")
	}
}
