//go:build linux && (amd64 || arm64)

package oracle_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest/run"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// deviceEnv names the variable with the name of the card; see make selftest.
const deviceEnv = "VERBS_DEVICE"

// TestSameCard repeats TestOracle on a single card: the C program and ours are two processes on it,
// each with queue pairs connected to each other. It compares what they write into their memory and
// how they read completions; doorbells and calls to the kernel are not visible. Without a card both
// run on a simulated one, in the same way.
func TestSameCard(t *testing.T) {
	needtest.Goroutines(t)
	name := os.Getenv(deviceEnv)
	if name == "" {
		program, said, whole := build(t), "", true
		for _, m := range []mode{{name: "Ethernet"}, {name: "InfiniBand", infiniBand: true}} {
			ran := false
			t.Run(m.name, func(t *testing.T) {
				said += onModel(t, m, program)
				ran = true
			})
			whole = whole && ran
		}
		for _, what := range slices.Sorted(maps.Keys(differencesOnCard)) {
			if whole && !t.Failed() && !strings.Contains(said, "times: "+what+": ") {
				t.Errorf("a difference that there is not: %s", what)
			}
		}
		return
	}
	d, err := verbs.FindDevice("", name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(d.Driver, "mlx5_core") { // a part of an adapter has the suffix .sf
		t.Skipf("%s is not a device of mlx5", name)
	}
	program := build(t)
	found, compared := make(map[string]int), make(map[string]int)
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			ucttest.NoLeaks(t)
			p := newCardPair(t, program, d)
			p.apart = s.clears
			s.run(p)
			add(found, p.found)
			add(compared, p.compared)
		})
	}
	for _, what := range slices.Sorted(maps.Keys(compared)) {
		t.Logf("compared: %d %s", compared[what], what)
	}
	for _, list := range []map[string]string{differences, differencesOnCard} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if found[name] > 0 {
				t.Logf("%d times: %s: %s", found[name], name, list[name])
			}
		}
	}
}

func add(to, counts map[string]int) {
	for name, n := range counts {
		to[name] += n
	}
}

// newCardPair starts both sides on one device.
func newCardPair(t *testing.T, program string, d *verbs.Device) *pair {
	t.Helper()
	p := emptyPair(t, mode{})
	p.card, p.ours, p.theirs = true, newSide(), newSide()
	file, err := uverbs.Open(d.Path, d.Uverbs, d.Rdev)
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGoProbe(&watched{File: file}, d.ABIVersion)
	if err != nil {
		t.Fatal(err)
	}
	p.ours.prober, p.ours.stop, p.base, p.ours.pid = g, g.close, g.base, os.Getpid()
	p.ours.where = func(completions bool) ([]location, error) { return g.places.sorted(completions), nil }
	cmd := exec.Command(program, fmt.Sprint(g.base), d.Name)
	if err := p.theirs.start((*exec.Cmd).Start, func() error { return nil }, cmd, false); err != nil {
		t.Fatal(errors.Join(err, g.close()))
	}
	t.Cleanup(p.end)
	p.theirs.where = func(completions bool) ([]location, error) {
		want := uint64(0)
		if completions {
			want = 1
		}
		answer, err := p.theirs.do("queues", want)
		if err != nil {
			return nil, err
		}
		return locationsOf(answer)
	}
	p.reach(g.ctx)
	return p
}

// reach finds the addresses of the port.
func (p *pair) reach(c *verbs.Context) {
	p.t.Helper()
	port, err := c.QueryPort(1)
	if err != nil {
		p.t.Fatal(err)
	}
	if port.State != verbs.PortActive {
		p.t.Fatalf("port 1 is %v", port.State)
	}
	gid, err := c.DefaultGID(1)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mode.infiniBand = port.LinkLayer == verbs.LinkInfiniBand
	p.path = path{gid.GID, uint8(gid.Index), port.LID}
}

// onModel runs the test as a program on a simulated device and returns its output. On InfiniBand it
// runs only the scripts that depend on the link layer.
func onModel(t *testing.T, m mode, program string) string {
	t.Helper()
	ucttest.NoLeaks(t)
	n := verbstest.NewFabric()
	k := n.Add(m.config())
	machine, err := run.New(n)
	if errors.Is(err, ucs.ErrUnsupported) {
		needtest.Tool(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer machine.Close()
	var names []string
	for _, s := range scripts {
		if s.link || !m.infiniBand {
			names = append(names, s.name)
		}
	}
	var out bytes.Buffer
	cmd := exec.Command(os.Args[0], "-test.run=^TestSameCard$/^("+strings.Join(names, "|")+")$", "-test.v", "-test.failfast", "-test.timeout=3m")
	cmd.Env = append(os.Environ(), deviceEnv+"="+k.Name(), programEnv+"="+program)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := machine.Run(cmd); err != nil || !strings.Contains(out.String(), "\n--- PASS: TestSameCard") {
		t.Fatalf("%v\n%s", err, &out)
	}
	machine.Wait()
	for _, rule := range k.Broken() {
		t.Error(rule)
	}
	if k.Objects() != 0 {
		t.Errorf("%d objects left behind", k.Objects())
	}
	return out.String()
}
