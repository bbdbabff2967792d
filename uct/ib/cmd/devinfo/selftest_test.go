//go:build linux

package main

import (
	"bufio"
	"strings"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// tried runs the selftest on a simulated device.
func tried(t *testing.T, c verbstest.Config, arrange func(*verbstest.Kernel)) (report string, code int) {
	t.Helper()
	ucttest.NoLeaks(t)
	n := verbstest.NewFabric()
	k := n.Add(c)
	stop := n.Run()
	defer stop()
	dev, err := verbs.NewContext(k.Open(), k.ABI())
	if err != nil {
		t.Fatal(err)
	}
	arrange(k)
	var out strings.Builder
	w := bufio.NewWriter(&out)
	code, err = selftest(w, dev, &verbs.Device{Name: "dev0"}, &options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Flush()
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	if k.Objects() != 0 || k.Mapped() != 0 {
		t.Errorf("%d objects and %d mappings left behind", k.Objects(), k.Mapped())
	}
	for _, rule := range k.Broken() {
		t.Error(rule)
	}
	return out.String(), code
}

// TestSelftest checks that devices which support everything pass.
func TestSelftest(t *testing.T) {
	for name, c := range map[string]verbstest.Config{
		"rxe":              {},
		"mlx5":             {MLX5: &verbstest.MLX5{}},
		"mlx5, InfiniBand": {MLX5: &verbstest.MLX5{StaticUARs: true, Version0: true}, Ports: []verbstest.Port{{InfiniBand: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			report, code := tried(t, c, func(*verbstest.Kernel) {})
			if code != exitOK || strings.Count(report, "\nok ") != len(checks) || !strings.Contains(report, "posted in") {
				t.Errorf("%d\n%s", code, report)
			}
		})
	}
}

// TestSelftestFails checks that the selftest reports an operation that fails on a device, and
// continues with the others.
func TestSelftestFails(t *testing.T) {
	for want, arrange := range map[string]func(*verbstest.Kernel){
		"FAILED  completion queue resized": func(k *verbstest.Kernel) { k.FailCall("RESIZE_CQ", 0, syscall.EIO) },
		"FAILED  memory reregistered":      func(k *verbstest.Kernel) { k.FailCall("REREG_MR", 0, syscall.EIO) },
	} {
		t.Run(want, func(t *testing.T) {
			report, code := tried(t, verbstest.Config{}, arrange)
			if code != exitFailure || !strings.Contains(report, "\n"+want) || strings.Count(report, "\nok ") != len(checks)-1 {
				t.Errorf("%d\n%s", code, report)
			}
		})
	}
}

// TestSelftestRefuses checks that the selftest refuses a device whose port is down.
func TestSelftestRefuses(t *testing.T) {
	m, k := fake(t)
	k.SetPort(false)
	if _, stderr, code := runs(m, "--selftest", "rxe0"); code != exitQuery || !strings.Contains(stderr, "port 1 is") {
		t.Errorf("%d, %q", code, stderr)
	}
	k.SetPort(true)
	defer k.Fabric().Run()()
	if stdout, stderr, code := runs(m, "--selftest=rxe0"); code != exitOK || !strings.Contains(stdout, "max_qp_wr") || stderr != "" {
		t.Errorf("%d, %s, %q", code, stdout, stderr)
	}
}
