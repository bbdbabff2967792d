//go:build linux

package verbs_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func scavenge() { debug.FreeOSMemory() }

// devices reads sysfs once, because it has thousands of files.
var devices = readDevices()

func readDevices() func() ([]verbs.Device, error) {
	return sync.OnceValues(func() ([]verbs.Device, error) { return verbs.Devices("") })
}

// device returns the RDMA device of this machine.
func device(t *testing.T) *verbs.Device {
	t.Helper()
	return named(t, rdmatest.Device(t))
}

// named returns the device of a name.
func named(t *testing.T, name string) *verbs.Device {
	t.Helper()
	list, err := devices()
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	t.Fatalf("%q is not among %d RDMA devices", name, len(list))
	return nil
}

// deviceRig returns a real device. Without one it skips the test.
func deviceRig(t *testing.T) *rig {
	t.Helper()
	return openRig(t, device(t))
}

func openRig(t *testing.T, d *verbs.Device) *rig {
	t.Helper()
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

// ours returns rxe0 with rxe1 as its peer, in the virtual machine, whose network tests may disturb.
func ours(t *testing.T) *rig {
	t.Helper()
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("only the network of make test-rxe's VM is ours to spoil")
	}
	r := openRig(t, named(t, "rxe0"))
	r.peer = openRig(t, named(t, "rxe1"))
	return r
}

// command runs a program in the virtual machine.
func command(t *testing.T, line string) string {
	t.Helper()
	out, err := run(line)
	check(t, err)
	return out
}

func run(line string) (string, error) {
	args := strings.Fields(line)
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return string(out), nil
}

// TestDevice runs the suite on the device of this machine.
func TestDevice(t *testing.T) {
	deviceRig(t)
	for _, s := range suite {
		if !long && os.Getenv("VM_NET") == "veth" && (s.name == "ManyQPs" || s.name == "Sizes") {
			continue // slow, and part of TestTwoDevices
		}
		t.Run(s.name, func(t *testing.T) { s.test(t, deviceRig(t)) })
	}
}

// TestTwoDevices runs the suite between two devices that reach each other: the first one and the
// one VERBS_PEER names, or those of the virtual machine.
func TestTwoDevices(t *testing.T) {
	deviceRig(t)
	peer := os.Getenv("VERBS_PEER")
	if peer == "" && os.Getenv("VM_NET") == "veth" {
		peer = "rxe1"
	}
	if peer == "" {
		t.Skip("VERBS_PEER names no second RDMA device; make test-rxe has two in a VM")
	}
	for _, s := range suite {
		t.Run(s.name, func(t *testing.T) {
			r := deviceRig(t)
			r.peer = openRig(t, named(t, peer))
			s.test(t, r)
		})
	}
}
