package verbs_test

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func scavenge() { debug.FreeOSMemory() }

// deviceRig is the RDMA device of this machine: the one VERBS_DEVICE names, else
// the first.
func deviceRig(t *testing.T) *rig {
	t.Helper()
	if _, err := os.Stat("/dev/infiniband/uverbs0"); err != nil {
		t.Skip("no RDMA device; make test-rxe runs these in a VM")
	}
	list, err := verbs.Devices("")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal("/dev/infiniband/uverbs0 is there, but sysfs has no device")
	}
	d := &list[0]
	if name := os.Getenv("VERBS_DEVICE"); name != "" {
		if d, err = verbs.FindDevice("", name); err != nil {
			t.Fatal(err)
		}
	}
	ucttest.NoLeaks(t)
	r := &rig{open: func(t *testing.T) *verbs.Context {
		t.Helper()
		c, err := d.Open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("closing the device: %v", err)
			}
		})
		return c
	}}
	r.find(t)
	return r
}

// TestDevice runs the suite on the device of this machine.
func TestDevice(t *testing.T) {
	deviceRig(t)
	for _, s := range suite {
		t.Run(s.name, func(t *testing.T) { s.test(t, deviceRig(t)) })
	}
}
