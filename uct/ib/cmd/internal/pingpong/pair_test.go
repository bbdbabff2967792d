//go:build linux

package pingpong

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/porttest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// running is a tool that runs in this process, on a simulated device.
type running struct {
	out, err text
	status   int
	cancel   context.CancelFunc
	ended    chan struct{}
}

func start(t *testing.T, k *verbstest.Kernel, tool *Tool, args ...string) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.status = tool.run(ctx, args, &r.out, &r.err, func(name string) (*verbs.Context, error) {
			if name != "" && name != "rxe0" {
				return nil, fmt.Errorf("no device %s: %w", name, ucs.ErrNoDevice)
			}
			return verbs.NewContext(k.Open(), 2)
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-r.ended
		if t.Failed() {
			t.Logf("%s %v: status %d\n%s%s", tool.Name, args, r.status, r.out.String(), r.err.String())
		}
	})
	return r
}

// end waits for the tool and checks how it ended: with an error that contains want, or successfully
// if want is empty.
func (r *running) end(t *testing.T, want string) {
	t.Helper()
	await(t, r.ended, "the tool to end")
	if bad := r.status != exitOK; bad != (want != "") || !strings.Contains(r.err.String(), want) {
		t.Errorf("status %d, %q, want %q", r.status, r.err.String(), want)
	}
}

func newKernel(t *testing.T) *verbstest.Kernel {
	t.Helper()
	ucttest.NoLeaks(t)
	k := verbstest.New()
	t.Cleanup(func() {
		if k.Objects() != 0 || k.Mapped() != 0 {
			t.Errorf("%d objects and %d mappings left behind", k.Objects(), k.Mapped())
		}
	})
	return k
}

func TestPair(t *testing.T) {
	for _, tool := range tools {
		for _, flags := range []string{"", "-e", "-c", "-ec -r 16", "-s 1", "-c -s 0", "-s 4096 -c -n 100 -r 17", "-g 2 -n 1", "-n 0"} {
			if tool == SRQ && strings.Contains(flags, "-s 0") {
				continue
			}
			t.Run(tool.Name+flags, func(t *testing.T) {
				k := newKernel(t)
				port := porttest.Free(t)
				args := append([]string{"-n", "200", "-d", "rxe0", "-p", fmt.Sprint(port)}, strings.Fields(flags)...)
				server := start(t, k, tool, args...)
				listened(t, port, server.ended)
				client := start(t, k, tool, append(args, "127.0.0.1")...)
				client.end(t, "")
				server.end(t, "")
				o, err := tool.parse(args)
				if err != nil {
					t.Fatal(err)
				}
				if o.iters > 0 { // otherwise the rates are not numbers
					checkLines(t, tool, o.size, o.iters, server.out.String())
					sameLines(t, server.out.String(), client.out.String())
				}
			})
		}
	}
}

// TestUnchecked checks that a server with -c detects a client that sends other data.
func TestUnchecked(t *testing.T) {
	k := newKernel(t)
	port := porttest.Free(t)
	server := start(t, k, RC, "-c", "-s", "9000", "-p", fmt.Sprint(port))
	listened(t, port, server.ended)
	client := start(t, k, RC, "-s", "9000", "-p", fmt.Sprint(port), "127.0.0.1")
	client.end(t, "")
	server.end(t, "3 pages")
	if !strings.HasSuffix(server.out.String(), "invalid data in page 0\ninvalid data in page 1\ninvalid data in page 2\n") {
		t.Error("no page is named")
	}
}

// TestPeerGone ends one of the two tools while they run.
func TestPeerGone(t *testing.T) {
	for _, tool := range tools {
		for _, flags := range []string{"", "-e"} {
			for _, clientGoes := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s%s/client=%v", tool.Name, flags, clientGoes), func(t *testing.T) {
					goes(t, tool, strings.Fields(flags), clientGoes)
				})
			}
		}
	}
}

func goes(t *testing.T, tool *Tool, flags []string, clientGoes bool) {
	k := newKernel(t)
	port := porttest.Free(t)
	args := append(flags, "-s", "64", "-n", fmt.Sprint(1<<30), "-p")
	server := start(t, k, tool, append(args, fmt.Sprint(port))...)
	listened(t, port, server.ended)
	p := newProxy(t, port)
	client := start(t, k, tool, append(args, fmt.Sprint(p.port), "127.0.0.1")...)
	await(t, p.stays[0], "the client's first message")
	await(t, p.stays[1], "the server's first message")
	first, second := server, client
	if clientGoes {
		first, second = client, server
	}
	first.cancel()
	first.end(t, "interrupted: ")
	// A reliable connection may fail before the TCP connection does.
	await(t, second.ended, "the other end")
	if e := second.err.String(); second.status != exitFailed || !strings.Contains(e, "the peer closed the connection") && !strings.Contains(e, "retries exceeded") {
		t.Errorf("status %d: %s", second.status, e)
	}
}

// TestInterrupt interrupts tools that wait.
func TestInterrupt(t *testing.T) {
	t.Run("for a client", func(t *testing.T) {
		port := porttest.Free(t)
		r := start(t, newKernel(t), RC, "-p", fmt.Sprint(port))
		listened(t, port, r.ended)
		r.cancel()
		r.end(t, "interrupted")
	})
	t.Run("for an address", func(t *testing.T) {
		k := newKernel(t)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		r := start(t, k, UD, "-p", fmt.Sprint(l.Addr().(*net.TCPAddr).Port), "127.0.0.1")
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		r.cancel()
		r.end(t, "interrupted")
	})
	for _, flags := range [][]string{nil, {"-e"}} {
		t.Run(fmt.Sprint("for a message", flags), func(t *testing.T) {
			// The peer is like a C tool that is connected and never sends.
			k := newKernel(t)
			port := porttest.Free(t)
			r := start(t, k, UD, append(flags, "-p", fmt.Sprint(port))...)
			listened(t, port, r.ended)
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, golden)
			if _, err := io.ReadFull(c, make([]byte, destLen)); err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, done)
			c.Close()
			r.cancel()
			r.end(t, "interrupted")
		})
	}
}

// TestGarbage sends invalid data to a tool, or closes the connection.
func TestGarbage(t *testing.T) {
	for _, c := range []struct{ says, want string }{
		{"", "EOF"}, {golden[:30], "unexpected EOF"}, {strings.Repeat("\xff", 4096), "peer's address"},
		{golden, "waiting for the peer"}, {golden + "x", "waiting for the peer"}, {golden + "gone\x00", "instead of"},
		{string(dest{qpn: 1}.append(nil)) + done, "no GID"}, {string(dest{}.append(nil)), "QPs"},
	} {
		k := newKernel(t)
		port := porttest.Free(t)
		r := start(t, k, RC, "-p", fmt.Sprint(port))
		listened(t, port, r.ended)
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, c.says)
		conn.(*net.TCPConn).CloseWrite()
		r.end(t, c.want)
		conn.Close()
	}
}

// TestRefused runs tools with invalid arguments.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		tool  *Tool
		args  string
		want  string
		usage bool
	}{
		{RC, "-x", "invalid option", true},
		{RC, "-p 65536", "-p", true},
		{RC, "--port=x", "-p", true},
		{RC, "-i 0", "-i", true},
		{RC, "-m 1000", "not an MTU", true},
		{RC, "-m 4097", "not an MTU", true},
		{RC, "-q 3", "invalid option", true},
		{UD, "-m 1024", "invalid option", true},
		{UC, "-o", "invalid option", true},
		{RC, "a b", "more than one host", true},
		{RC, "-r 0", "-r", true},
		{RC, "-s -1", "-s", true},
		{RC, "-n 4294967296", "-n", true},
		{SRQ, "-s 0", "at least 1 byte", true},
		{SRQ, "-q 256", "-q", true},
		{SRQ, "-q 10 -r 9", "at least one", true},
		{RC, "-t", "timestamps", false},
		{RC, "--dm", "device memory", false},
		{RC, "-P", "ibv_advise_mr", false},
		{RC, "-O", "implicit", false},
		{RC, "--new_send", "extended interface", false},
		{RC, "-o", "with on-demand paging", false},
		{SRQ, "--odp", "with on-demand paging", false},
		{RC, "-d mlx5_0", "no device mlx5_0", false},
		{RC, "-i 2", "", false},
		{RC, "-g 9", "", false},
		{RC, "-s 100000000", "the port takes 8388608", false},
		{UD, "-s 4097", "the port takes 4096", false},
		{RC, "-r 100000", "", false},
	} {
		t.Run(c.tool.Name+" "+c.args, func(t *testing.T) {
			r := start(t, newKernel(t), c.tool, strings.Fields(c.args)...)
			await(t, r.ended, "the tool to end")
			usage := strings.HasPrefix(r.out.String(), "Usage:\n  "+c.tool.Name)
			if r.status != exitFailed || !strings.Contains(r.err.String(), c.want) || r.err.String() == "" || usage != c.usage {
				t.Errorf("status %d, %q\n%s", r.status, r.err.String(), r.out.String())
			}
		})
	}
	t.Run("no server", func(t *testing.T) {
		start(t, newKernel(t), RC, "-p", fmt.Sprint(porttest.Free(t)), "127.0.0.1").end(t, "connection refused")
	})
	t.Run("port taken", func(t *testing.T) {
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		start(t, newKernel(t), RC, "-p", fmt.Sprint(l.Addr().(*net.TCPAddr).Port)).end(t, "in use")
	})
}
