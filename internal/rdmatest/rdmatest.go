//go:build linux

// Package rdmatest finds the RDMA device for tests. A machine may have devices that package verbs
// has no driver for, or that this user may not open: tests treat them as absent.
package rdmatest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// chosen is the environment variable that names the device.
const chosen = "VERBS_DEVICE"

// Device returns the device that tests use: the one that VERBS_DEVICE names, else the first that
// can be opened. Without one the test is skipped; in the virtual machine of make test-rxe, which
// must have one, it fails.
func Device(t testing.TB) string {
	t.Helper()
	if name := os.Getenv(chosen); name != "" {
		return name
	}
	f := usable(t)
	if len(f.names) == 0 {
		without(t, f.refused)
	}
	return f.names[0]
}

// All is for tests of all devices: it skips the test unless there are devices and each can be
// opened.
func All(t testing.TB) {
	t.Helper()
	if f := usable(t); len(f.names) == 0 || f.refused != nil {
		without(t, f.refused)
	}
}

func without(t testing.TB, refused error) {
	t.Helper()
	end := t.Skipf
	if os.Getenv("VM_NET") != "" {
		end = t.Fatalf
	}
	if refused == nil {
		end("no RDMA device; make test-rxe runs these in a VM")
	}
	end("RDMA devices that cannot be used here (make test-rxe runs these in a VM): %v", refused)
}

var once struct {
	sync.Once
	found
}

// found holds the devices of a machine.
type found struct {
	names   []string // names of the devices that can be opened
	refused error    // why the others cannot be opened
	err     error    // an unexpected error
}

func usable(t testing.TB) found {
	t.Helper()
	once.Do(func() { once.found = find("/sys", verbs.OpenDevice) })
	if once.err != nil {
		t.Fatal(once.err)
	}
	return once.found
}

// find opens each device. Of sysfs it reads only the devices' names, because other files may take
// long to read.
func find(root string, open func(root, name string) (*verbs.Context, error)) (f found) {
	files, _ := filepath.Glob(filepath.Join(root, "class/infiniband_verbs/uverbs*")) // the pattern is valid
	for _, file := range files {
		node := filepath.Base(file)
		c, err := open(root, node)
		switch {
		case errors.Is(err, ucs.ErrUnsupported), errors.Is(err, ucs.ErrNoDevice):
			f.refused = errors.Join(f.refused, err)
			continue
		case err == nil:
			err = c.Close()
		}
		b, e := os.ReadFile(filepath.Join(file, "ibdev"))
		if f.err = errors.Join(f.err, err, e); f.err == nil {
			f.names = append(f.names, strings.TrimSpace(string(b)))
		}
	}
	return f
}
