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

// Devices on which less and less memory can be pinned, in steps of scarceStep.
const (
	scarceDevices = 16
	scarceStep    = 128 << 10
)

// registerScarce registers these devices. It is called by the test that needs them, as each device
// costs some system calls in every context.
var registerScarce = sync.OnceFunc(func() {
	n := verbstest.NewFabric()
	for k := range scarceDevices {
		n.Add(verbstest.Config{Name: fmt.Sprintf("scarce%d", k), Limits: verbstest.Limits{MemLock: int64(k+1) * scarceStep}})
	}
	uct.Register(ibtest.Network("scarce", n))
})

// TestScarceMemory checks that a worker with rc and ud, however little memory it may pin, either is
// refused by NewWorker with that reason, or can be connected to.
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
