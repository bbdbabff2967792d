//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// devices reads sysfs once, because it has thousands of files.
var devices = sync.OnceValues(func() ([]verbs.Device, error) { return verbs.Devices("") })

// deviceSystem returns the system of the kernel, and the addresses to use.
func deviceSystem(t *testing.T) (sys *system, client, server string) {
	t.Helper()
	if _, err := os.Stat("/dev/infiniband/rdma_cm"); err != nil {
		t.Skip("no RDMA connection manager; make test-rxe runs these in a VM")
	}
	rdmatest.All(t)
	list, err := devices()
	if err != nil {
		t.Fatal(err)
	}
	ucttest.NoLeaks(t)
	open := &rdmacm.Contexts{Devices: list}
	t.Cleanup(func() {
		if err := open.Close(); err != nil {
			t.Error(err)
		}
	})
	sys = &system{rdmacm.NewEventChannel, open.Open}
	if os.Getenv("VM_NET") == "veth" {
		return sys, "10.9.0.1", "10.9.0.2"
	}
	for _, d := range list {
		for _, p := range d.Ports {
			for _, g := range p.GIDs {
				if a := g.GID.Addr(); a.Is4() {
					return sys, a.String(), a.String()
				}
			}
		}
	}
	t.Skipf("none of %d RDMA devices has an IPv4 address", len(list))
	return
}

// c starts the C program, which is killed at the end of the test.
func c(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *lines) {
	t.Helper()
	if _, err := exec.LookPath("rping"); err != nil {
		needtest.Tool(t, fmt.Sprintf("%v (apt-get install rdmacm-utils)", err))
	}
	stdout, stderr = newLines("rdma_listen"), newLines("")
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	// The C program does not flush its output to a pipe before it ends.
	cmd = exec.CommandContext(ctx, "rping", args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		cmd.Wait()
	})
	return cmd, stdout, stderr
}

// ended waits for a C program and returns the error with which it ended. At its end the program
// closes the event channel while its other thread reads from it. That thread may notice first, and
// then ends the program with another error, which ended ignores.
func ended(cmd *exec.Cmd, stderr *lines) error {
	err := cmd.Wait()
	if err != nil && strings.HasSuffix(stderr.String(), "\nrdma_get_cm_event: Bad file descriptor\n") {
		return nil
	}
	return err
}

// flagSets are the flags that both sides run with.
var flagSets = [][]string{{"-S", "64"}, {"-S", "23", "-V"}, {"-S", "65535", "-V"}, {"-S", "1000", "-V", "-q"}}

// TestGoGo runs our client with our server.
func TestGoGo(t *testing.T) {
	for _, flags := range flagSets {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			sys, from, to := deviceSystem(t)
			args := append([]string{"-a", to}, flags...)
			_, errs, wait := server(t, sys, args...)
			status, _, stderr := client(t, sys, append(args, "-V", "-I", from, "-C", "10")...)
			if n := wait(); n != 0 || status != 0 {
				t.Errorf("server %d, client %d\n%s\n%s", n, status, errs, stderr)
			}
		})
	}
}

// TestServeC runs the C client with our server.
func TestServeC(t *testing.T) {
	for _, flags := range flagSets {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			sys, from, to := deviceSystem(t)
			args := append([]string{"-v", "-a", to}, flags...)
			out, errs, wait := server(t, sys, args...)
			cmd, stdout, stderr := c(t, append(args, "-c", "-V", "-I", from, "-C", "10")...)
			err := ended(cmd, stderr)
			if n := wait(); n != 0 || err != nil {
				t.Errorf("server %d, C client %v\n%s\n%s", n, err, errs, stderr)
			}
			for _, line := range strings.Split(strings.TrimSpace(stdout.String()), "\n") {
				if !strings.HasPrefix(line, "ping data: rdma-ping-") || !strings.Contains(out.String(), "server "+line+"\n") {
					t.Errorf("C prints %.99q, we have not printed it", line)
				}
			}
		})
	}
}

// TestClientOfC runs our client with the C server; both must print the same.
func TestClientOfC(t *testing.T) {
	for _, flags := range flagSets {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			sys, from, to := deviceSystem(t)
			args := append([]string{"-v", "-a", to}, flags...)
			cmd, stdout, stderr := c(t, append(args, "-s")...)
			status, out, errs := retry(t, sys, append(args, "-V", "-I", from, "-C", "10")...)
			if err := ended(cmd, stderr); err != nil || status != 0 {
				t.Errorf("C server %v, client %d\n%s\n%s", err, status, stderr, errs)
			}
			if n := strings.Count(out, "ping data: rdma-ping-"); n != 10 {
				t.Errorf("%d pings", n)
			}
			for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
				if !strings.Contains(stdout.String(), "server "+line+"\n") {
					t.Errorf("we print %.99q, C has not printed it", line)
				}
			}
		})
	}
}

// retry runs a client until the server listens, which the C program does not report.
func retry(t *testing.T, sys *system, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	for end := time.Now().Add(eventTimeout); ; {
		status, stdout, stderr = client(t, sys, args...)
		if !strings.HasPrefix(stderr, "cma event RDMA_CM_EVENT_REJECTED, error 8\n") || time.Now().After(end) {
			return status, stdout, stderr
		}
	}
}

// TestPersistentC runs our server with several C clients, and a C server with several of our
// clients.
func TestPersistentC(t *testing.T) {
	sys, from, to := deviceSystem(t)
	_, errs, wait := server(t, sys, "-P", "-a", to)
	var waits []func() error
	for range 3 {
		cmd, _, stderr := c(t, "-c", "-V", "-a", to, "-I", from, "-C", "10")
		waits = append(waits, func() error { return ended(cmd, stderr) })
	}
	for _, ended := range waits {
		if err := ended(); err != nil {
			t.Errorf("C client: %v\n%s", err, errs)
		}
	}
	wait()
	if n := strings.Count(errs.String(), "server DISCONNECT EVENT...\n"); n != 3 {
		t.Errorf("%d ends:\n%s", n, errs)
	}

	cmd, _, stderr := c(t, "-s", "-P", "-a", to, "-p", "7175")
	for i := range 3 {
		if status, _, errs := retry(t, sys, "-V", "-a", to, "-I", from, "-C", "10", "-p", "7175"); status != 0 {
			t.Errorf("client %d: %d\n%s\n%s", i, status, errs, stderr)
		}
	}
	cmd.Process.Kill()
}

// TestKilledPeer checks that our side ends, and leaves nothing, if its C peer is killed.
func TestKilledPeer(t *testing.T) {
	sys, from, to := deviceSystem(t)
	out, errs, wait := server(t, sys, "-v", "-a", to)
	cmd, _, _ := c(t, "-c", "-a", to, "-I", from) // runs forever
	for end := time.Now().Add(eventTimeout); !strings.Contains(out.String(), "server ping data: rdma-ping-3:"); {
		if time.Now().After(end) {
			t.Fatalf("no pings\n%s%s", out, errs)
		}
	}
	cmd.Process.Kill()
	if n := wait(); n != 0 {
		t.Errorf("the server of a killed client: %d\n%s", n, errs)
	}

	cmd, _, _ = c(t, "-s", "-a", to, "-p", "7176")
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	var stderr bytes.Buffer
	status := make(chan int, 1)
	var pings *lines
	for end := time.Now().Add(eventTimeout); ; {
		pings = newLines("rdma-ping-3:")
		stderr.Reset()
		go func() {
			status <- run(ctx, sys, []string{"-c", "-v", "-a", to, "-I", from, "-p", "7176"}, pings, &stderr)
		}()
		select {
		case <-pings.seen:
		case n := <-status: // the server does not listen yet
			if time.Now().After(end) {
				t.Fatalf("client: %d\n%s", n, &stderr)
			}
			continue
		}
		break
	}
	cmd.Process.Kill()
	if n := <-status; n != exitFailure || !strings.Contains(stderr.String(), "client DISCONNECT EVENT...\n") {
		t.Errorf("the client of a killed server: %d\n%s", n, fmt.Sprint(&stderr))
	}
}
