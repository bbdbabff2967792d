//go:build linux

package shm

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// peerVariable makes the test binary a peer. Its value names the transport, then settings.
const peerVariable = "SHM_TEST_PEER"

func TestMain(m *testing.M) {
	if args := os.Getenv(peerVariable); args != "" {
		if err := runPeer(strings.Fields(args)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// goPeer is another process with an interface that echoes messages.
type goPeer struct {
	t              testing.TB
	cmd            *exec.Cmd
	in             io.WriteCloser
	out            *bufio.Scanner
	dev, addr, key []byte
	mem            uint64
	ended          bool
}

func startPeer(t testing.TB, transport string, settings ...string) *goPeer {
	t.Helper()
	return startPeerIn(t, 0, transport, settings...)
}

// startPeerIn starts the peer in new namespaces.
func startPeerIn(t testing.TB, namespaces uintptr, transport string, settings ...string) *goPeer {
	t.Helper()
	needSegments(t, transport)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &goPeer{t: t, cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), peerVariable+"="+strings.Join(append([]string{transport}, settings...), " "))
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL, Cloneflags: namespaces}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		if namespaces != 0 {
			needtest.Right(t, fmt.Sprintf("the right to make namespaces: %v", err))
		}
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	f := strings.Fields(p.line())
	if len(f) != 5 || f[0] != "at" {
		t.Fatalf("the peer says %q", f)
	}
	p.dev, p.addr, p.key = ucttest.Unhex(t, f[1]), ucttest.Unhex(t, f[2]), ucttest.Unhex(t, f[3])
	fmt.Sscan(f[4], &p.mem)
	return p
}

// kill kills the peer and waits for its exit.
func (p *goPeer) kill() {
	if p.ended {
		return
	}
	p.ended = true
	p.cmd.Process.Kill()
	p.in.Close()
	p.cmd.Wait()
}

func (p *goPeer) line() string {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatal("the peer has ended")
	}
	return p.out.Text()
}

// do sends a command and checks that the peer has done it.
func (p *goPeer) do(format string, args ...any) {
	p.t.Helper()
	fmt.Fprintf(p.in, format+"\n", args...)
	if got := p.line(); got != "ok" {
		p.t.Fatalf("the peer says %q", got)
	}
}

// runPeer is the peer: it prints its addresses and serves commands. Between commands it progresses
// only if it was asked to.
func runPeer(args []string) error {
	c := component{args[0]}
	cfg := new(config.Set)
	for _, s := range args[1:] {
		name, value, _ := strings.Cut(s, "=")
		if err := cfg.Modify(name, value); err != nil {
			return err
		}
	}
	w, err := uct.NewWorker()
	if err != nil {
		return err
	}
	md, err := c.OpenMD(c.name, cfg)
	if err != nil {
		return err
	}
	ifc, err := md.OpenIface(w, uct.IfaceParams{Transport: c.name, Device: deviceName}, cfg)
	if err != nil {
		return err
	}
	mem, err := md.Alloc(uct.AllocParams{Length: 1 << 20, Access: uct.AccessAll})
	if err != nil {
		return err
	}
	key, err := md.AppendKey(nil, mem)
	if err != nil {
		return err
	}
	fmt.Printf("at %x %x %x %d\n", ifc.DeviceAddress(), ifc.Address(), key, addressOf(mem.Bytes()))
	var ep uct.Endpoint
	received := 0
	// Message 1 is echoed and counted, message 2 only counted.
	ifc.SetAMHandler(1, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
		received++
		for ep.AMShort(1, 0, data[8:], 0, nil) == ucs.ErrNoResource {
		}
		return nil
	})
	ifc.SetAMHandler(2, func(*uct.Source, []byte, *uct.AMDesc) error { received++; return nil })
	var line atomic.Pointer[string]
	next := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			text := in.Text()
			line.Store(&text)
			<-next
		}
	}()
	progress := false
	for {
		if progress {
			for range 1000 {
				w.Progress()
			}
			select {
			case <-ended:
				return nil
			default:
			}
		}
		text := line.Swap(nil)
		if text == nil {
			if !progress {
				unix.Poll(nil, 1)
			}
			continue
		}
		f := strings.Fields(*text)
		answer := "ok"
		switch f[0] {
		case "connect":
			dev, _ := hex.DecodeString(f[1])
			addr, _ := hex.DecodeString(f[2])
			if ep, err = ifc.NewEndpoint(uct.EndpointParams{DeviceAddr: dev, IfaceAddr: addr}); err != nil {
				answer = err.Error()
			}
		case "progress":
			progress = true
		case "pause":
			progress = false
		case "send": // short messages with id 2
			var n int
			fmt.Sscan(f[1], &n)
			for k := range n {
				for {
					err := ep.AMShort(2, uint64(k), nil, 0, nil)
					if err == nil {
						break
					}
					if err != ucs.ErrNoResource {
						return err
					}
					w.Progress()
				}
			}
		case "claim": // and exit before publishing
			if _, err := ep.(*endpoint).claim(); err != nil {
				return err
			}
			fmt.Println("ok")
			unix.Kill(os.Getpid(), unix.SIGKILL)
		case "received":
			answer = fmt.Sprint(received)
		case "truncate": // the ring, the buffers and the memory
			i := ifc.(*iface)
			for _, s := range append(i.pool.chunks, i.rx.seg, mem.(*allocation).seg) {
				if err := unix.Ftruncate(s.fd, 0); err != nil {
					answer = err.Error()
				}
			}
		}
		fmt.Println(answer)
		next <- struct{}{}
	}
}
