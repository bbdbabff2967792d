//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// compareWithC runs this command and the C tools on the devices of this machine.
func compareWithC(t *testing.T) {
	rdmatest.All(t)
	if _, err := exec.LookPath("ibv_devinfo"); err != nil {
		needtest.Tool(t, fmt.Sprintf("%v (apt-get install ibverbs-utils)", err))
	}
	ucttest.NoLeaks(t)
	list, err := verbs.Devices("")
	if err != nil || len(list) == 0 {
		t.Fatalf("%d devices, %v", len(list), err)
	}
	first := list[0].Name
	for _, args := range [][]string{
		{}, {"-v"}, {"-l"}, {"--ib-dev=" + first, "-i", "0x1"}, {"-d", "nosuch"}, {"-d", first, "-i2"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(args, &stdout, &stderr)
		c := exec.Command("ibv_devinfo", args...)
		want, err := c.Output()
		if c.ProcessState == nil {
			t.Fatal(err)
		}
		prefix := "hca_id:"
		if slices.Contains(args, "-l") {
			prefix = first[:len(first)-1]
		}
		if diff := cmp.Diff(rdmatest.ByDevice(string(want), prefix), rdmatest.ByDevice(stdout.String(), prefix)); diff != "" {
			t.Errorf("%q (-C +ours):\n%s", args, diff)
		}
		if code != c.ProcessState.ExitCode() || (code == 0) != (stderr.Len() == 0) {
			t.Errorf("%q: exit code %d, of C %d; %s", args, code, c.ProcessState.ExitCode(), &stderr)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "    %-16s\t   node GUID\n    %-16s\t----------------\n", "device", "------")
	for _, d := range list {
		fmt.Fprintf(&b, "    %-16s\t%016x\n", d.Name, uint64(d.NodeGUID))
	}
	want, err := exec.Command("ibv_devices").Output()
	prefix := first[:len(first)-1]
	if diff := cmp.Diff(rdmatest.ByDevice(string(want), prefix), rdmatest.ByDevice(b.String(), prefix)); diff != "" || err != nil {
		t.Errorf("devices (-C +ours): %v\n%s", err, diff)
	}
}
