//go:build linux && (amd64 || arm64)

package run_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest/run"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// eventTimeout bounds the wait for an event that should happen.
const eventTimeout = 2 * time.Minute

// kinds are the kinds of devices.
var kinds = map[string]func(link verbstest.Port) verbstest.Config{
	"rxe": func(p verbstest.Port) verbstest.Config { return verbstest.Config{Ports: []verbstest.Port{p}} },
	"mlx5": func(p verbstest.Port) verbstest.Config {
		return verbstest.Config{Ports: []verbstest.Port{p}, MLX5: &verbstest.MLX5{}}
	},
}

// newMachine returns a machine with two devices of a kind. No rule of the devices may be broken.
func newMachine(t *testing.T, kind string) (*run.Machine, *verbstest.Fabric) {
	t.Helper()
	n := verbstest.NewFabric()
	m := newMachineOn(t, n, kind)
	t.Cleanup(func() {
		for _, k := range n.Devices() {
			for _, rule := range k.Broken() {
				t.Error(rule)
			}
		}
	})
	return m, n
}

// newMachineOn returns a machine with two devices of a kind.
func newMachineOn(t *testing.T, n *verbstest.Fabric, kind string) *run.Machine {
	t.Helper()
	ucttest.NoLeaks(t)
	n.Add(kinds[kind](verbstest.Port{}))
	n.Add(kinds[kind](verbstest.Port{}))
	m, err := run.New(n)
	if errors.Is(err, ucs.ErrUnsupported) {
		needtest.Tool(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		for _, k := range n.Devices() {
			if k.Objects() != 0 {
				t.Errorf("%s: %d objects left", k.Name(), k.Objects())
			}
		}
	})
	return m
}

// child is this program in a role, on a machine.
type child struct {
	*exec.Cmd
	t     *testing.T
	in    io.WriteCloser
	out   *bufio.Reader
	err   strings.Builder
	ended bool
}

// start starts a child, which is killed at the end of the test if it still runs.
func start(t *testing.T, m *run.Machine, role string, args ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0], args...), t: t}
	c.Env = append(os.Environ(), childRole+"="+role)
	c.Dir = t.TempDir() // the child may create files of any name
	c.Stderr = &c.err
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, m.Start(c.Cmd)); err != nil {
		t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		c.Process.Kill()
		c.end()
	})
	return c
}

// ready waits until a child reports that it is ready.
func (c *child) ready() {
	c.t.Helper()
	if line, err := c.out.ReadString('\n'); line != "ready\n" {
		c.t.Fatalf("%q, %v, %v\n%s", line, err, c.end(), &c.err)
	}
}

// end waits for the end of a child.
func (c *child) end() error {
	if c.ended {
		return nil
	}
	c.ended = true
	c.in.Close()
	return c.Wait()
}

// says makes a child continue, and returns all its remaining output.
func (c *child) says() string {
	c.t.Helper()
	c.in.Close()
	b, err := io.ReadAll(c.out)
	if e := c.end(); e != nil || err != nil {
		c.t.Fatalf("%v, %v\n%s%s", e, err, b, &c.err)
	}
	return string(b)
}

// eventually waits for a condition that another process makes true.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(eventTimeout); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("still not: " + what)
		}
	}
}

// eachKind runs a test on devices of each kind.
func eachKind(t *testing.T, test func(t *testing.T, kind string)) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

// TestList checks what a program sees of devices and other files.
func TestList(t *testing.T) {
	devices := map[string]string{
		"rxe":  "rxe0 uverbs0 2 231 192 PCI  driver  ports 1 ACTIVE\nrxe1 uverbs1 2 231 193 PCI  driver  ports 1 ACTIVE\n",
		"mlx5": "mlx5_0 uverbs0 1 231 192 PCI 9000:01:00.0 driver mlx5_core ports 1 ACTIVE\nmlx5_1 uverbs1 1 231 193 PCI 9000:02:00.0 driver mlx5_core ports 1 ACTIVE\n",
	}
	links := map[string]string{
		"rxe":  "[/sys/class/infiniband/rxe0 /sys/class/infiniband/rxe1]\n readlink /sys/class/infiniband/rxe0: invalid argument\n",
		"mlx5": "[/sys/class/infiniband/mlx5_0 /sys/class/infiniband/mlx5_1]\n../../devices/pci9000:00/9000:01:00.0/infiniband/mlx5_0 <nil>\n",
	}
	eachKind(t, func(t *testing.T, kind string) {
		m, _ := newMachine(t, kind)
		want := devices[kind] + `/dev/infiniband/uverbs0 Dc---------
stat /dev/infiniband/uverbs9: no such file or directory
/dev/infiniband d---------
/sys/class/infiniband d---------
/sys/class/infiniband/../infiniband_verbs/abi_version ----------
stat /sys/class/infiniband_mad: no such file or directory
[/dev/infiniband/uverbs0 /dev/infiniband/uverbs1]
` + links[kind] + `readlink /sys/class/infiniband: invalid argument
<nil>
open /sys/class/infiniband/x: permission denied permission denied <nil>
true 231 192 <nil>
protocol not supported
`
		if d := cmp.Diff(want, start(t, m, "list").says()); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// TestSignals interrupts the process that answers calls all the time, as Go's scheduler may.
func TestSignals(t *testing.T) {
	m, _ := newMachine(t, "mlx5")
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			default:
			}
			threads, _ := os.ReadDir("/proc/self/task")
			for _, e := range threads {
				tid, _ := strconv.Atoi(e.Name())
				unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
			}
		}
	}()
	defer func() {
		close(over)
		<-done
	}()
	for range 8 {
		if got := start(t, m, "talk").says(); got != "said\n" {
			t.Errorf("%q", got)
		}
	}
}

// TestTalk has a program send messages to itself, from one device to the other.
func TestTalk(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		m, _ := newMachine(t, kind)
		a, b := start(t, m, "talk"), start(t, m, "talk") // a second program at the same time
		if got := a.says() + b.says(); got != "said\nsaid\n" {
			t.Errorf("%q", got)
		}
	})
}

// TestGone checks that the objects of a program are removed when it has closed the device, or has
// ended in any way.
func TestGone(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		m, n := newMachine(t, kind)
		k := n.Devices()[0]
		c := start(t, m, "close")
		if c.ready(); k.Objects() != 0 {
			t.Errorf("%d objects of who has closed the device", k.Objects())
		}
		c.says()
		c = start(t, m, "hold")
		if c.ready(); k.Objects() == 0 {
			t.Error("no objects")
		}
		c.says()
		eventually(t, "gone with its end", func() bool { return k.Objects() == 0 })
		for range 3 {
			c = start(t, m, "hold")
			c.ready()
			c.Process.Kill()
			c.end()
			eventually(t, "gone with its killing", func() bool { return k.Objects() == 0 })
		}
		c = start(t, m, "become")
		c.ready()
		if text := c.says(); !strings.Contains(text, "protocol not supported") || k.Objects() != 0 {
			t.Errorf("%d objects, %s", k.Objects(), text)
		}
	})
}

// TestNumbers checks the descriptors of devices, and their duplicates.
func TestNumbers(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		m, n := newMachine(t, kind)
		c := start(t, m, "number")
		// The file of an rxe device is empty and can be truncated; the pages of mlx5 are
		// sealed.
		shorter := map[string]string{"rxe": "<nil>", "mlx5": "operation not permitted"}[kind]
		line, err := c.out.ReadString('\n')
		if want := "900 901 true true true true 192 <nil>\n"; line != want || err != nil {
			t.Errorf("%q, want %q", line, want)
		}
		rest := c.says()
		if want := "operation not supported " + shorter + "\n<nil>\ntoo many open files\nready\n"; rest != want {
			t.Errorf("%q, want %q", rest, want)
		}
		eventually(t, "closed", func() bool { return n.Devices()[0].Objects() == 0 })
	})
}

// TestChanges checks that a program gets the events of a device and sees changed files.
func TestChanges(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		m, n := newMachine(t, kind)
		c := start(t, m, "events")
		c.ready()
		n.Add(kinds[kind](verbstest.Port{}))
		n.Devices()[0].SetLink(1, false)
		if got := c.says(); got != "port error DOWN 3\n" {
			t.Errorf("%q", got)
		}
		if got := start(t, m, "list").says(); !strings.Contains(got, " uverbs2 ") {
			t.Error(got)
		}
	})
}

// TestWild checks that random calls of a program are answered, and do not affect others.
func TestWild(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		n := verbstest.NewFabric()
		m := newMachineOn(t, n, kind)
		for seed := range 4 {
			a, b := start(t, m, "wild", fmt.Sprint(seed)), start(t, m, "talk")
			if got := a.says() + b.says(); got != "wild\nsaid\n" {
				t.Errorf("%q", got)
			}
		}
		eventually(t, "gone", func() bool { return n.Devices()[0].Objects() == 0 })
	})
}

// TestChildren checks that processes started by a program are on the machine, too, and that Wait
// waits for them.
func TestChildren(t *testing.T) {
	m, _ := newMachine(t, "rxe")
	file := filepath.Join(t.TempDir(), "list")
	cmd := exec.Command("sh", "-c", "(sleep 0.1; ls /dev/infiniband >"+file+") & ")
	if err := m.Run(cmd); err != nil {
		t.Fatal(err)
	}
	m.Wait()
	if b, err := os.ReadFile(file); string(b) != "uverbs0\nuverbs1\n" {
		t.Errorf("%q, %v", b, err)
	}
	if err := m.Start(exec.Command("true")); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("after Wait: %v", err)
	}
}

// TestRefused checks the errors of starting programs, and of the kernel.
func TestRefused(t *testing.T) {
	m, _ := newMachine(t, "rxe")
	if err := m.Run(exec.Command("/nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	var exit *exec.ExitError
	if err := m.Run(exec.Command("false")); !errors.As(err, &exit) {
		t.Errorf("%v", err)
	}
	if got := start(t, m, "nested").says(); got != "true true\n" {
		t.Errorf("a machine on a machine: %q", got)
	}
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Error(err)
	}
	if err := m.Start(exec.Command("true")); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("after Close: %v", err)
	}
}
