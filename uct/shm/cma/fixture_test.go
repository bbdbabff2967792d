//go:build linux

package cma

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// childEnv makes the test binary a peer. Its value is the kind of peer.
const childEnv = "CMA_TEST_PEER"

// childMemory is the size of the memory whose address a peer prints.
const childMemory = 64 << 20

func TestMain(m *testing.M) {
	if kind := os.Getenv(childEnv); kind != "" {
		if err := peerMain(kind); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// peerMain prints the addresses of a peer and of its memory, and waits.
func peerMain(kind string) error {
	md, err := component{}.OpenMD(name, nil)
	if err != nil {
		return err
	}
	if kind == "undumpable" {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
	}
	if kind == "nobody" {
		if err := syscall.Setresuid(65534, 65534, 65534); err != nil {
			return err
		}
	}
	mem, err := unix.Mmap(-1, 0, childMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	copy(mem, ucttest.Pattern(1<<20, 3))
	fmt.Printf("peer %x %x %d\n", host.LocalDeviceAddr().Append(nil), localAddress().pack(), addressOf(mem))
	io.Copy(io.Discard, os.Stdin)
	return md.Close()
}

// process is a peer that runs in another process.
type process struct {
	cmd       *exec.Cmd
	dev, addr []byte
	mem       uint64
}

// newProcess starts a peer; flags are the new namespaces that it gets.
func newProcess(t testing.TB, kind string, flags uintptr) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), childEnv+"="+kind)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		in.Close()
		out.Close()
		if flags != 0 {
			needtest.Right(t, fmt.Sprintf("the right to make namespaces: %v", err))
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the peer says %q, %v", line, err)
	}
	var dev, addr string
	if _, err := fmt.Sscanf(line, "peer %s %s %d", &dev, &addr, &p.mem); err != nil {
		t.Fatalf("the peer says %q", line)
	}
	p.dev, _ = hex.DecodeString(dev)
	p.addr, _ = hex.DecodeString(addr)
	return p
}

// kill kills the peer and waits until it has exited, but leaves it a zombie, as a peer need not be
// a child of this process.
func (p *process) kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
}

// connect returns a new endpoint to a peer.
func (p *process) connect(t testing.TB, h *ucttest.Host) *endpoint {
	t.Helper()
	return h.NewEndpoint(t, uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr, UserData: p}).(*endpoint)
}

// settingsOf makes a set of "NAME=value" settings.
func settingsOf(t testing.TB, vars ...string) *config.Set {
	t.Helper()
	for _, v := range vars {
		n, value, _ := strings.Cut(v, "=")
		t.Setenv("UCX_CMA_"+n, value)
	}
	cfg, err := config.Read("", "")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// open opens the transport. It skips the test if the machine does not allow cma.
func open(t testing.TB, vars ...string) *ucttest.Host {
	t.Helper()
	needCMA(t)
	return fixture(settingsOf(t, vars...)).Open(t)
}

func fixture(cfg *config.Set) *ucttest.Fixture {
	return &ucttest.Fixture{
		Component:     component{},
		Config:        cfg,
		SharedAddress: true,
		Expose: func(uct.MemoryDomain, []byte, uct.Access) (func() error, error) {
			return func() error { return nil }, nil
		},
	}
}

func needCMA(t testing.TB) {
	t.Helper()
	if err := machine.usable(); err != nil {
		needtest.Call(t, err.Error())
	}
}

// self returns a new endpoint of an iface to its own process.
func self(t testing.TB, h *ucttest.Host) *endpoint {
	t.Helper()
	return h.Connect(t, h).(*endpoint)
}

func iovOf(bufs ...[]byte) []uct.IOV {
	list := make([]uct.IOV, len(bufs))
	for k := range bufs {
		list[k].Data = bufs[k]
	}
	return list
}
