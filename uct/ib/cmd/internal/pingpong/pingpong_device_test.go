//go:build linux

package pingpong

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/porttest"
	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// place is the device and GID of one end.
type place struct {
	dev   string
	index int // of the GID, which the C tools need as a flag
}

// places returns two devices that reach each other: first, and the device in VERBS_PEER, else rxe1
// in the virtual machine, else the same device.
func places(first string) (list [2]place, err error) {
	list[0].dev, list[1].dev = first, os.Getenv("VERBS_PEER")
	if list[1].dev == "" && os.Getenv("VM_NET") == "veth" {
		list[1].dev = "rxe1"
	}
	if list[1].dev == "" {
		list[1].dev = list[0].dev
	}
	for i := range list {
		c, err := verbs.OpenDevice("", list[i].dev)
		if err != nil {
			return list, err
		}
		g, err := c.DefaultGID(1)
		c.Close()
		if err != nil {
			return list, err
		}
		list[i].index = g.Index
	}
	return list, nil
}

func devicePlaces(t *testing.T) [2]place {
	t.Helper()
	list, err := places(rdmatest.Device(t))
	if err != nil {
		t.Fatal(err)
	}
	ucttest.NoLeaks(t)
	return list
}

// process is a running tool: ours, in this binary, or C's.
type process struct {
	cmd      *exec.Cmd
	out, err text
	ended    chan struct{}
}

func launch(t *testing.T, tool *Tool, ours bool, at place, args ...string) *process {
	t.Helper()
	args = append([]string{"-d", at.dev}, args...)
	p := &process{ended: make(chan struct{})}
	if ours {
		p.cmd = exec.Command("/proc/self/exe", args...)
		p.cmd.Env = append(os.Environ(), envTool+"="+tool.Name)
	} else {
		p.cmd = exec.Command("ibv_"+tool.Name, append([]string{"-g", fmt.Sprint(at.index)}, args...)...)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%v: %v\n%s%s", p.cmd.Args, p.cmd.ProcessState, p.out.String(), p.err.String())
		}
	})
	return p
}

func (p *process) status(t *testing.T) int {
	t.Helper()
	await(t, p.ended, p.cmd.String())
	return p.cmd.ProcessState.ExitCode()
}

// needC skips the test without the C tool, or fails it if the tool must be installed.
func needC(t *testing.T, tool *Tool) {
	t.Helper()
	if _, err := exec.LookPath("ibv_" + tool.Name); err != nil {
		needtest.Tool(t, fmt.Sprintf("%v (apt-get install ibverbs-utils)", err))
	}
}

// play runs a server and a client to their end and compares their output.
func play(t *testing.T, tool *Tool, ours [2]bool, at [2]place, size, iters int, flags ...string) {
	t.Helper()
	port := porttest.Free(t)
	args := append([]string{"-s", fmt.Sprint(size), "-n", fmt.Sprint(iters), "-p", fmt.Sprint(port)}, flags...)
	server := launch(t, tool, ours[0], at[0], args...)
	listened(t, port, server.ended)
	client := launch(t, tool, ours[1], at[1], append(args, "127.0.0.1")...)
	for _, p := range []*process{client, server} {
		if s := p.status(t); s != exitOK {
			t.Fatalf("%v: status %d", p.cmd.Args, s)
		}
	}
	sameLines(t, server.out.String(), client.out.String())
	checkLines(t, tool, size, iters, server.out.String())
}

var pairings = []struct {
	name string
	ours [2]bool // server, client
}{{"Go-Go", [2]bool{true, true}}, {"Go-C", [2]bool{true, false}}, {"C-Go", [2]bool{false, true}}}

// TestDevice runs our tools with those of C in both roles, with checked data, with and without
// events, between two devices. Both must print the same. The long form also runs all of that
// between our own tools.
func TestDevice(t *testing.T) {
	at := devicePlaces(t)
	iters, depth := 30, "20"
	long := os.Getenv("RXE_LONG") != ""
	if long {
		iters, depth = 1000, "500"
	}
	number := 0
	game := func(name string, f func(t *testing.T)) {
		if rdmatest.InPart(t, number) {
			t.Run(name, f)
		}
		number++
	}
	for _, tool := range tools {
		sizes := []int{9000}
		switch {
		case tool == UD:
			sizes = []int{1000}
		case long:
			sizes = []int{1, 4096, 9000}
		case tool == RC:
			sizes = []int{1, 9000}
		}
		pairings := pairings
		if !long {
			pairings = pairings[1:]
		}
		for _, p := range pairings {
			for _, flag := range []string{"-c", "-ce"} {
				for _, size := range sizes {
					if flag == "-ce" && size < 1000 && !long {
						continue
					}
					game(fmt.Sprintf("%s/%s%s/%d", tool.Name, p.name, flag, size), func(t *testing.T) {
						at := devicePlaces(t)
						if p.ours != [2]bool{true, true} {
							needC(t, tool)
						}
						play(t, tool, p.ours, at, size, iters, "-r", depth, flag)
					})
				}
			}
		}
	}
	game("other way round", func(t *testing.T) {
		play(t, RC, [2]bool{true, true}, [2]place{at[1], at[0]}, 64<<10, iters, "-m", "4096", "-l", "3", "-c")
	})
	game("a device to itself", func(t *testing.T) {
		play(t, UD, [2]bool{true, true}, [2]place{at[0], at[0]}, 256, iters, "-c", "-g", fmt.Sprint(at[0].index))
	})
}

// middle starts two tools without a limit, through a proxy, and returns when ours have received
// data.
func middle(t *testing.T, tool *Tool, ours [2]bool, flags ...string) [2]*process {
	t.Helper()
	at := devicePlaces(t)
	port := porttest.Free(t)
	args := append(flags, "-s", "512", "-n", "1000000000", "-p")
	server := launch(t, tool, ours[0], at[0], append(args, fmt.Sprint(port))...)
	listened(t, port, server.ended)
	p := newProxy(t, port)
	client := launch(t, tool, ours[1], at[1], append(args, fmt.Sprint(p.port), "127.0.0.1")...)
	for i, end := range []string{"client", "server"} {
		if !ours[1-i] {
			continue
		}
		select {
		case <-p.stays[i]:
		case <-server.ended:
			t.Fatal("the server has ended")
		case <-client.ended:
			t.Fatal("the client has ended")
		case <-time.After(eventTimeout):
			t.Fatalf("the %s has not received anything", end)
		}
	}
	return [2]*process{server, client}
}

// TestKilled kills one of our tools while they run: the other one must notice.
func TestKilled(t *testing.T) {
	devicePlaces(t)
	t.Setenv(envGrace, "100ms") // no message in flight needs the grace
	for _, c := range []struct {
		tool  *Tool
		flags []string
		kill  int
	}{{RC, nil, 0}, {RC, []string{"-e"}, 1}, {UC, []string{"-e"}, 0}, {UD, nil, 1}, {SRQ, nil, 1}} {
		t.Run(fmt.Sprintf("%s%s/%s", c.tool.Name, c.flags, [2]string{"server", "client"}[c.kill]), func(t *testing.T) {
			ends := middle(t, c.tool, [2]bool{true, true}, c.flags...)
			ends[c.kill].cmd.Process.Kill()
			other := ends[1-c.kill]
			// A reliable connection may fail before the TCP connection does.
			if s, e := other.status(t), other.err.String(); s != exitFailed || !strings.Contains(e, "the peer closed the connection") && !strings.Contains(e, "retries exceeded") {
				t.Errorf("status %d: %s", s, e)
			}
		})
	}
}

// TestKilledC kills a C tool while it runs. A send in flight fails. A tool that only waits does not
// notice, like the C tools, but can be interrupted.
func TestKilledC(t *testing.T) {
	devicePlaces(t)
	for _, c := range []struct {
		tool  *Tool
		flags []string
		ours  int
	}{{RC, nil, 0}, {RC, []string{"-e"}, 1}, {UD, []string{"-e"}, 0}, {UD, nil, 1}} {
		t.Run(fmt.Sprintf("%s%s/%s", c.tool.Name, c.flags, [2]string{"client", "server"}[c.ours]), func(t *testing.T) {
			needC(t, c.tool)
			ours := [2]bool{c.ours == 0, c.ours == 1}
			ends := middle(t, c.tool, ours, c.flags...)
			ends[1-c.ours].cmd.Process.Kill()
			await(t, ends[1-c.ours].ended, "the C tool to die")
			ends[c.ours].cmd.Process.Signal(syscall.SIGTERM)
			if s := ends[c.ours].status(t); s != exitFailed || ends[c.ours].err.String() == "" {
				t.Errorf("status %d", s)
			}
		})
	}
}

// TestRecording checks that the recorded exchange is what the C tool sends.
func TestRecording(t *testing.T) {
	at := devicePlaces(t)
	needC(t, RC)
	port := porttest.Free(t)
	server := launch(t, RC, true, at[0], "-n", "5", "-p", fmt.Sprint(port))
	listened(t, port, server.ended)
	p := newProxy(t, port)
	client := launch(t, RC, false, at[1], "-n", "5", "-p", fmt.Sprint(p.port), "127.0.0.1")
	if client.status(t) != exitOK || server.status(t) != exitOK {
		t.Fatal("the game failed")
	}
	said := p.heard[0].String()
	if len(said) != destLen+len(done) || said[destLen:] != done {
		t.Fatalf("the C client said %q", said)
	}
	d, err := parseDest([]byte(said[:destLen]))
	if err != nil || string(d.append(nil)) != said[:destLen] {
		t.Errorf("%q is read as %+v, %v", said, d, err)
	}
	t.Logf("the C client said %q", said)
}
