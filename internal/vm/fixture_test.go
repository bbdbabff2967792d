package vm

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
)

// stepTimeout is the time limit of steps that end by themselves: emulation and other load are slow.
const stepTimeout = time.Minute

// network skips the test unless it runs in the virtual machine with this network.
func network(t *testing.T, want string) {
	t.Helper()
	if got := os.Getenv("VM_NET"); got != want {
		t.Skipf("VM_NET is %q, not %q: make test-rxe runs this in the virtual machine", got, want)
	}
}

// command runs a program until it exits and returns its output.
func command(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// server is a program that exits after its client.
type server struct {
	args   []string
	cancel context.CancelFunc
	done   chan struct{}
	output bytes.Buffer // valid once done is closed
	err    error
}

// serve starts a program and waits until ready reports that it accepts a client.
func serve(t *testing.T, ready func() bool, args ...string) *server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	s := &server{args: args, cancel: cancel, done: make(chan struct{})}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		s.err = cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-s.done
	})
	for !ready() {
		select {
		case <-s.done:
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), s.err, s.output.Bytes())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return s
}

// wait returns the program's output after it has exited successfully.
func (s *server) wait(t *testing.T) string {
	t.Helper()
	<-s.done
	if s.err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(s.args, " "), s.err, s.output.Bytes())
	}
	return s.output.String()
}

// listening returns a function that reports whether a program listens on the TCP port.
func listening(port int) func() bool {
	suffix := fmt.Sprintf(":%04X", port)
	return func() bool {
		for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			table, _ := os.ReadFile(path) // without IPv6 there is no tcp6
			for line := range strings.Lines(string(table)) {
				field := strings.Fields(line)
				if len(field) > 3 && strings.HasSuffix(field[1], suffix) && field[3] == "0A" {
					return true
				}
			}
		}
		return false
	}
}

// defaultPort is the port of the pingpong programs and of perftest.
const defaultPort = 18515

// pingpong runs one of the pingpong programs between two devices. The programs check the data; the
// client's output is returned.
func pingpong(t *testing.T, serverDevice, clientDevice string, args ...string) string {
	t.Helper()
	args = append(args, "-c", "-g", "1", "-d")
	s := serve(t, listening(defaultPort), append(args[:len(args):len(args)], serverDevice)...)
	output := command(t, append(args[:len(args):len(args)], clientDevice, "127.0.0.1")...)
	// The programs only print this, with status 0.
	if both := output + s.wait(t); strings.Contains(both, "invalid data") {
		t.Errorf("wrong data:\n%s", both)
	}
	return output
}

// content fails the test unless a file has the given content.
func content(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	} else if s := strings.TrimSpace(string(got)); s != want {
		t.Errorf("%s is %q, want %q", path, s, want)
	}
}

// device fails the test unless there is a soft-RoCE device on a network device, with an active port
// and the GID at index 1.
func device(t *testing.T, name, netdev, gid string) {
	t.Helper()
	dir := "/sys/class/infiniband/" + name
	content(t, dir+"/parent", netdev)
	content(t, dir+"/ports/1/state", "4: ACTIVE")
	content(t, dir+"/ports/1/gids/1", gid)
	content(t, dir+"/ports/1/gid_attrs/types/1", "RoCE v2")
}

var once sync.Once

// netem loads the kernel module that can make a network lossy.
func netem(t *testing.T) {
	once.Do(func() { command(t, "insmod", "/modules/sch_netem.ko") })
}
