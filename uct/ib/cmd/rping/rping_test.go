//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/rdmacm/rdmacmtest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// eventTimeout bounds the wait for an event that should happen.
const eventTimeout = 60 * time.Second

// fakeSystem returns a simulated machine.
func fakeSystem(t *testing.T) *system {
	t.Helper()
	sys, _ := fakeMachine(t)
	return sys
}

func fakeMachine(t *testing.T) (*system, *rdmacmtest.Kernel) {
	t.Helper()
	ucttest.NoLeaks(t)
	cm, device := rdmacmtest.New(), verbstest.New()
	dev, err := verbs.NewContext(device.Open(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		if n := cm.Objects() + device.Objects(); n != 0 {
			t.Errorf("%d objects left", n)
		}
	})
	return &system{
		channel: func() (*rdmacm.EventChannel, error) {
			f, err := cm.Open()
			if err != nil {
				return nil, err
			}
			return rdmacm.NewChannel(f)
		},
		open: func(rdmacm.Addr) (*verbs.Context, error) { return dev, nil },
	}, cm
}

// lines collects output and signals a line.
type lines struct {
	mu   sync.Mutex
	b    bytes.Buffer // under mu
	want string
	seen chan struct{} // closed when the output contains want
}

func newLines(want string) *lines { return &lines{want: want, seen: make(chan struct{})} }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	had := strings.Contains(l.b.String(), l.want)
	l.b.Write(b)
	if !had && l.want != "" && strings.Contains(l.b.String(), l.want) {
		close(l.seen)
	}
	return len(b), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// server runs a server until it ends or the test does; wait returns its status.
func server(t *testing.T, sys *system, args ...string) (stdout, stderr *lines, wait func() int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	status := make(chan int, 1)
	stdout, stderr = newLines("rdma_listen\n"), newLines("")
	go func() { status <- run(ctx, sys, append([]string{"-s", "-d"}, args...), stdout, stderr) }()
	select {
	case <-stdout.seen:
	case n := <-status:
		cancel()
		t.Fatalf("the server ends: %d\n%s%s", n, stdout, stderr)
	}
	// Only cancel ends a persistent server.
	return stdout, stderr, sync.OnceValue(func() int {
		if strings.Contains(strings.Join(args, " "), "-P") {
			cancel()
		}
		n := <-status
		cancel()
		return n
	})
}

func client(t *testing.T, sys *system, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	var out, err bytes.Buffer
	status = run(ctx, sys, append([]string{"-c"}, args...), &out, &err)
	return status, out.String(), err.String()
}

// text returns the text of a ping.
func text(ping, size int) string {
	b := make([]byte, size)
	fill(b, ping)
	return string(b[:size-1])
}

// TestPingPong checks that the client prints what it receives, and the server what it reads.
func TestPingPong(t *testing.T) {
	for _, c := range []struct {
		size int
		more []string
	}{{64, nil}, {23, nil}, {maxSize, nil}, {100, []string{"-q"}}, {64, []string{"-a", "::1"}}} {
		t.Run(fmt.Sprint(c.size, c.more), func(t *testing.T) {
			sys := fakeSystem(t)
			size := fmt.Sprint(c.size)
			args := append([]string{"-v", "-S", size, "-p", "4711"}, c.more...)
			out, errs, wait := server(t, sys, args...)
			args = append(append([]string{"-V", "-C", "3", "-a", "127.0.0.1"}, args...), c.more...)
			status, stdout, stderr := client(t, sys, args...)
			if n := wait(); n != 0 || errs.String() != "server DISCONNECT EVENT...\n" {
				t.Errorf("server: %d\n%s", n, errs)
			}
			want := ""
			for i := range 3 {
				want += "ping data: " + text(i, c.size) + "\n"
				if !strings.Contains(out.String(), "server ping data: "+text(i, c.size)+"\n") {
					t.Errorf("the server has not printed ping %d:\n%s", i, out)
				}
			}
			if status != 0 || stdout != want || stderr != "client DISCONNECT EVENT...\n" {
				t.Errorf("client: %d\n%s\n%s", status, stderr, cmp.Diff(want, stdout))
			}
		})
	}
}

// TestPersistent runs many clients at once.
func TestPersistent(t *testing.T) {
	sys := fakeSystem(t)
	_, errs, wait := server(t, sys, "-P")
	var clients sync.WaitGroup
	for range 8 {
		clients.Add(1)
		go func() {
			defer clients.Done()
			var err bytes.Buffer
			if n := run(context.Background(), sys, []string{"-c", "-a", "127.0.0.1", "-V", "-C", "20"}, io.Discard, &err); n != 0 {
				t.Errorf("%d\n%s", n, &err)
			}
		}()
	}
	clients.Wait()
	if n := wait(); n != exitFailure { // the canceled context has ended it
		t.Errorf("server: %d\n%s", n, errs)
	}
	if got := strings.Count(errs.String(), "server DISCONNECT EVENT...\n"); got != 8 {
		t.Errorf("%d ends:\n%s", got, errs)
	}
}

// TestTooMuch checks that a client with a larger buffer than the server's is refused.
func TestTooMuch(t *testing.T) {
	sys := fakeSystem(t)
	_, errs, wait := server(t, sys)
	status, _, stderr := client(t, sys, "-a", "127.0.0.1", "-S", "65", "-C", "1")
	if n := wait(); n != exitFailure || !strings.Contains(errs.String(), "the client's buffer has 65 bytes, the limit is 64") {
		t.Errorf("server: %d\n%s", n, errs)
	}
	if status != exitFailure || !strings.Contains(stderr, "client DISCONNECT EVENT") {
		t.Errorf("client: %d\n%s", status, stderr)
	}
}

// TestFull checks that a client is refused if no descriptor is left, and that the next client is
// not.
func TestFull(t *testing.T) {
	sys := fakeSystem(t)
	open, opened := sys.channel, 0
	sys.channel = func() (*rdmacm.EventChannel, error) {
		if opened++; opened == 3 { // the channels of the listener, of the client, of its connection
			return nil, &rdmacm.Error{Call: "open", Errno: syscall.EMFILE}
		}
		return open()
	}
	_, errs, wait := server(t, sys, "-P")
	args := []string{"-a", "127.0.0.1", "-V", "-C", "2"}
	if n, _, stderr := client(t, sys, args...); n != exitFailure || !strings.Contains(stderr, "REJECTED, error 28") {
		t.Errorf("one too many: %d\n%s", n, stderr)
	}
	if n, _, stderr := client(t, sys, args...); n != 0 {
		t.Errorf("the next: %d\n%s", n, stderr)
	}
	wait()
	if !strings.Contains(errs.String(), "too many open files") {
		t.Errorf("the server says\n%s", errs)
	}
}

// TestHostileClient checks clients that send invalid messages, or name memory that is not theirs.
func TestHostileClient(t *testing.T) {
	for _, c := range []struct {
		name string
		say  func(s *session) error
		want string
	}{
		{"short", func(s *session) error {
			return s.post(verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{s.send.SGE(0, infoLen-1)}})
		}, "bogus data, size 15"},
		{"empty", func(s *session) error { return s.goOn(info{}) }, "buffer has 0 bytes"},
		{"all", func(s *session) error { return s.goOn(info{1<<64 - 1, 1<<32 - 1, 1<<32 - 1}) }, "buffer has 4294967295 bytes"},
		{"no key", func(s *session) error { return s.goOn(info{s.text.Addr(), s.text.RKey() + 1<<16, 64}) }, "completion failed"},
		{"not its memory", func(s *session) error { return s.goOn(info{s.text.Addr() + 1, s.text.RKey(), 64}) }, "completion failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sys := fakeSystem(t)
			_, errs, wait := server(t, sys)
			ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
			defer cancel()
			p := &program{options: &options{size: 64}, sys: sys, out: io.Discard, err: io.Discard}
			conn, err := rdmacm.Resolve(ctx, netip.MustParseAddrPort("127.0.0.1:7174"), p.config())
			if err != nil {
				t.Fatal(err)
			}
			s, err := p.newSession(conn)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			if err := conn.Connect(ctx, s.qp, param()); err != nil {
				t.Fatal(err)
			}
			if err := c.say(s); err != nil {
				t.Fatal(err)
			}
			if err := conn.Wait(ctx); err != nil {
				t.Error(err)
			}
			if err := conn.Disconnect(ctx); err != nil {
				t.Error(err)
			}
			if n := wait(); n != exitFailure || !strings.Contains(errs.String(), c.want) {
				t.Errorf("server: %d\n%s", n, errs)
			}
		})
	}
}

// TestRemoval removes the device during pings.
func TestRemoval(t *testing.T) {
	sys, cm := fakeMachine(t)
	_, errs, wait := server(t, sys)
	out, stderr := newLines("ping data: rdma-ping-9:"), newLines("")
	status := make(chan int, 1)
	go func() {
		status <- run(context.Background(), sys, []string{"-c", "-v", "-a", "127.0.0.1"}, out, stderr)
	}()
	<-out.seen
	cm.RemoveDevice()
	if n := <-status; n != exitFailure || !strings.Contains(stderr.String(), "cma event RDMA_CM_EVENT_DEVICE_REMOVAL") {
		t.Errorf("client: %d\n%s", n, stderr)
	}
	if n := wait(); n != exitFailure || !strings.Contains(errs.String(), "cma event RDMA_CM_EVENT_DEVICE_REMOVAL") {
		t.Errorf("server: %d\n%s", n, errs)
	}
}

// TestNobody checks the errors if no server listens, or if the address does not exist.
func TestNobody(t *testing.T) {
	sys := fakeSystem(t)
	status, _, stderr := client(t, sys, "-a", "127.0.0.1", "-C", "1")
	if status != exitFailure || !strings.HasPrefix(stderr, "cma event RDMA_CM_EVENT_REJECTED, error 8\n") {
		t.Errorf("%d\n%s", status, stderr)
	}
	status, _, stderr = client(t, sys, "-a", "192.0.2.1", "-C", "1")
	if status != exitFailure || !strings.HasPrefix(stderr, "cma event RDMA_CM_EVENT_ADDR_ERROR, error -110\n") {
		t.Errorf("%d\n%s", status, stderr)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		out    string // prefix of the output
		err    string
	}{
		{"", 22, "rping -s", ""},
		{"-x", 22, "rping -s", ""},
		{"-s -S", 22, "rping -s", ""},
		{"-c -S 22", 22, "", "Invalid size 22 (valid range is 23 to 65535)\n"},
		{"-c -S 65536", 22, "", "Invalid size 65536"},
		{"-c -S many", 22, "", "Invalid size many"},
		{"-c -C -1", 22, "", "Invalid count -1\n"},
		{"-t 1 -s", 22, "rping -s", ""},
	} {
		var out, err bytes.Buffer
		n := run(context.Background(), nil, strings.Fields(c.args), &out, &err)
		if n != c.status || !strings.HasPrefix(out.String(), c.out) || !strings.HasPrefix(err.String(), c.err) {
			t.Errorf("rping %s: %d\n%s%s", c.args, n, &out, &err)
		}
	}
	o, err := parseOptions(strings.Fields("-cvVd -C5 -S100 -p 80 -a 10.0.0.1 -I fe80::1%7 -q -P"))
	want := &options{addr: netip.MustParseAddrPort("10.0.0.1:80"), source: netip.MustParseAddrPort("[fe80::1%7]:0"), persistent: true,
		count: 5, size: 100, verbose: true, validate: true, debug: true, ownQP: true}
	if err != nil || *o != *want {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestInfo checks that a buffer description has the bytes of C.
func TestInfo(t *testing.T) {
	i := info{0x7f0011223344, 0xabcd, 100}
	b := i.append(nil)
	want := []byte{0, 0, 0x7f, 0, 0x11, 0x22, 0x33, 0x44, 0, 0, 0xab, 0xcd, 0, 0, 0, 100}
	if !bytes.Equal(b, want) {
		t.Errorf("% x", b)
	}
	if got, err := parseInfo(b); got != i || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range infoLen {
		if _, err := parseInfo(b[:n]); err == nil {
			t.Errorf("%d bytes are an info", n)
		}
	}
}
