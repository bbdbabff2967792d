//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest/run"
)

// TestInfo compares the output of ucx_info -d of C and ours for each kind of device, and for a
// device named like a bond with a port of each link layer. For the latter it also compares devinfo
// -v, which TestPrograms does for the others.
func TestInfo(t *testing.T) {
	skipShort(t)
	for _, tool := range []string{"ucx_info", "ibv_devinfo"} {
		if _, err := exec.LookPath(tool); err != nil {
			needtest.Tool(t, err.Error()+" (apt-get install ucx-utils ibverbs-utils)")
		}
	}
	dir := compile(t, "build", "../../../../cmd/ucx_info", "../devinfo")
	release, err := exec.Command("ucx_info", "-v").Output()
	if err != nil {
		t.Fatal(err)
	}
	same := func(t *testing.T, m *run.Machine) {
		t.Helper()
		want, got := domainsOf(output(t, m, "ucx_info", "-d")), domainsOf(output(t, m, dir+"ucx_info", "-d"))
		if len(want) < 20 {
			t.Fatalf("C says %q", want)
		}
		old := strings.Contains(string(release), "1.13")
		inOrder := func(lines []string) string {
			return rdmatest.ByDevice(strings.Join(less(lines, old), "\n")+"\n", "# Memory domain")
		}
		if diff := cmp.Diff(inOrder(want), inOrder(got)); diff != "" {
			t.Errorf("-C +ours:\n%s", diff)
		}
	}
	for _, d := range devices {
		t.Run(d.name, func(t *testing.T) { same(t, newMachine(t, d.infiniBand, d.mlx5)) })
	}
	t.Run("ports", func(t *testing.T) {
		n := verbstest.NewFabric()
		n.Add(verbstest.Config{MLX5: &verbstest.MLX5{Loose: true}, Name: "mlx5_bond_0", Ports: []verbstest.Port{
			{GIDs: addresses(0), MTU: 3, Width: 2, Speed: 32, PKeys: []uint16{0xffff, 0x8001}},
			{InfiniBand: true, LID: 0x123, LMC: 2, MTU: 4, Width: 2, Speed: 64},
		}})
		m := machineOn(t, n)
		same(t, m)
		for _, args := range [][]string{{"-v"}, {"-d", "mlx5_bond_0"}, {"-v", "-i", "2"}} {
			if diff := cmp.Diff(output(t, m, "ibv_devinfo", args...), output(t, m, dir+"devinfo", args...)); diff != "" {
				t.Errorf("%q, -C +ours:\n%s", args, diff)
			}
		}
	})
}

// output returns what a program prints.
func output(t *testing.T, m *run.Machine, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "UCX_WARN_UNUSED_ENV_VARS=n")
	if err := m.Run(cmd); err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, &out, &errs)
	}
	return out.String()
}

var blanks = regexp.MustCompile(` +`)

// domainsOf returns the lines of ucx_info -d about devices, with single blanks, and without
// transports that only C has.
func domainsOf(text string) (list []string) {
	domain, transport := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(blanks.ReplaceAllString(line, " "))
		switch what, name, _ := strings.Cut(strings.TrimPrefix(line, "# "), ": "); what {
		case "Memory domain":
			domain, transport = strings.HasPrefix(name, "mlx5_") || strings.HasPrefix(name, "rxe"), true
		case "Transport":
			transport = !strings.HasSuffix(name, "_mlx5")
		case "Connection manager", "RDMA device":
			domain = false
		}
		domain = domain && !strings.HasPrefix(line, "# < failed to open connection manager")
		if domain && transport && line != "#" && line != "" {
			list = append(list, line)
		}
	}
	return list
}

// less removes the lines that differ, for the reasons given; old is true if C is 1.13.
func less(lines []string, old bool) []string {
	return slices.DeleteFunc(lines, func(line string) bool {
		switch what, _, _ := strings.Cut(strings.TrimPrefix(line, "# "), ": "); what {
		case "System device": // this library ignores where in the machine a device is
			return true
		case "memory types": // 1.13 does not print them; memory of callers is not kept registered
			return true
		case "register", "am header": // as in 1.22: the cost of registration, and 40 bytes of a datagram
			return old
		}
		return false
	})
}
