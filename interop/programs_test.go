//go:build linux

package interop

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
)

// exampleNames are the examples that tests run.
var exampleNames = []string{"ucp_client_server", "ucp_hello_world"}

// example is one of C UCX's example programs, of one release.
type example struct {
	program
	where   *place
	partner string // the Go counterpart
	over    route
}

// overLo is the default route of the examples.
var overLo = route{name: "lo", tls: "tcp", both: true, devices: "lo"}

// examples builds one of C's examples for every installation that has its source, and the Go
// counterpart.
func examples(t *testing.T, where *place, name string) []example {
	t.Helper()
	dir := t.TempDir()
	partner := buildGo(t).partner
	var list []example
	for i, p := range buildC(t) {
		if p.dir != "" { // built elsewhere
			p.path = filepath.Join(p.dir, name)
			if _, err := os.Stat(p.path); err != nil {
				continue
			}
		} else {
			p.path = filepath.Join(dir, fmt.Sprintf("%s%d", name, i))
			if text := buildExample(t, prefixes()[i], name, p.path); text == nil {
				t.Logf("%s comes without examples", p.name)
				continue
			}
		}
		list = append(list, example{p, where, partner, overLo})
	}
	if len(list) == 0 {
		needtest.Tool(t, "the examples of C UCX")
	}
	return list
}

// buildExample builds one of C's examples of an installation, and returns its source, nil if the
// installation lacks it.
func buildExample(t *testing.T, prefix, name, out string) (text []byte) {
	t.Helper()
	source := filepath.Join(prefix, "share/ucx/examples", name+".c")
	if prefix == distribution {
		source = filepath.Join(prefix, "share/doc/libucx-dev/examples", name+".c")
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return nil
	}
	cmd := compiler(prefix, out, source)
	// They do not compile without warnings.
	cmd.Args = append(slices.DeleteFunc(cmd.Args, func(s string) bool { return s == "-Werror" }), "-w", "-std=gnu11")
	run(t, cmd)
	return text
}

// start starts one of the two programs.
func (e example) start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = slices.Concat(cleanEnv(), e.env, e.over.env(path == e.partner), []string{"UCX_KEEPALIVE_INTERVAL=100ms"})
	p, err := e.where.start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s printed:\n%s", path, p.output)
		}
	})
	return p
}

// says waits until the program has printed words this many times, and returns its output.
func (p *process) says(t *testing.T, words string, times int) string {
	t.Helper()
	for end := time.Now().Add(operationLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if said := p.output.String(); strings.Count(said, words) >= times {
			return said
		}
		select {
		case <-p.ended:
			if said := p.output.String(); strings.Count(said, words) >= times {
				return said
			}
			t.Fatalf("%s ended without saying %q", p.cmd.Path, words)
		default:
		}
	}
	t.Fatalf("%s does not say %q", p.cmd.Path, words)
	return ""
}

// listens starts the Go counterpart as a server and returns its port.
func (e example) listens(t *testing.T, args ...string) (*process, string) {
	t.Helper()
	p := e.start(t, e.partner, args...)
	_, at, _ := strings.Cut(p.says(t, "\n", 1), "listening ")
	_, port, err := net.SplitHostPort(strings.TrimSpace(at))
	if err != nil {
		t.Fatal(err)
	}
	return p, port
}

// TestHelloWorld talks to ucp_hello_world, as its server and as its client, with all of its ways to
// wait and to fail.
func TestHelloWorld(t *testing.T) {
	where := newPlace()
	defer where.close()
	for _, e := range examples(t, where, "ucp_hello_world") {
		e.helloWorld(t, []helloWay{{"-b", 16}, {"-w", 16}, {"-f", 100_000}, {"-b", 3_000_000}})
		for _, when := range []string{"recv", "keepalive"} {
			t.Run(e.name+"/it connects and dies/"+when, func(t *testing.T) {
				ours, port := e.listens(t, "hello", "serve", "127.0.0.1:0", "16", "dies")
				e.start(t, e.path, "-e", when, "-n", "127.0.0.1", "-p", port)
				if err := ours.wait(operationLimit); err != nil {
					t.Error(err)
				}
			})
		}
		t.Run(e.name+"/it serves and dies", func(t *testing.T) {
			_, at := e.helloServer(t, "-e", "send")
			if err := e.start(t, e.partner, "hello", "connect", at, "16", "dies").wait(operationLimit); err != nil {
				t.Error(err)
			}
		})
	}
}

// helloWay is how the program waits, and the size of its message.
type helloWay struct {
	flags string
	size  int
}

// helloWorld talks to the program as its server and as its client.
func (e example) helloWorld(t *testing.T, ways []helloWay) {
	for _, m := range ways {
		name := fmt.Sprintf("%s/%s %d/", e.name, m.flags, m.size)
		flags := []string{m.flags, "-s", fmt.Sprint(m.size)}
		t.Run(name+"it serves", func(t *testing.T) {
			program, at := e.helloServer(t, flags...)
			ours := e.start(t, e.partner, "hello", "connect", at, fmt.Sprint(m.size))
			for _, p := range []*process{ours, program} {
				if err := p.wait(operationLimit); err != nil {
					t.Error(err)
				}
			}
		})
		t.Run(name+"it connects", func(t *testing.T) {
			ours, port := e.listens(t, "hello", "serve", "127.0.0.1:0", fmt.Sprint(m.size))
			program := e.start(t, e.path, append(flags, "-n", "127.0.0.1", "-p", port)...)
			for _, p := range []*process{ours, program} {
				if err := p.wait(operationLimit); err != nil {
					t.Error(err)
				}
			}
			program.says(t, letters(m.size), 1)
		})
	}
}

// helloServer starts the program as a server, and returns where it listens. The program's output is
// buffered until it exits, so its socket is searched for.
func (e example) helloServer(t *testing.T, flags ...string) (program *process, at string) {
	t.Helper()
	port, err := e.where.freePort()
	if err != nil {
		t.Fatal(err)
	}
	program = e.start(t, e.path, append(flags, "-p", port)...)
	number := 0
	fmt.Sscan(port, &number)
	socket := fmt.Sprintf(":%04X 00000000:0000 0A ", number)
	for end := time.Now().Add(exitLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var list []byte
		e.where.do(func() { list, err = os.ReadFile("/proc/thread-self/net/tcp") })
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(list), socket) {
			return program, "127.0.0.1:" + port
		}
	}
	t.Fatal("the program does not listen")
	return nil, ""
}

// TestClientServer talks to ucp_client_server, as its server and as its client, with all its kinds
// of messages, small and large, in one piece and in several.
func TestClientServer(t *testing.T) {
	where := newPlace()
	defer where.close()
	for _, e := range examples(t, where, "ucp_client_server") {
		e.clientServer(t, []clientSize{{"1", "16"}, {"3", "40000"}, {"1", "2000000"}})
	}
}

// clientSize is the number of pieces of a message, and their length.
type clientSize struct{ pieces, length string }

// clientServer talks to the program as its server and as its client.
func (e example) clientServer(t *testing.T, sizes []clientSize) {
	us, it := e.over.host(true), e.over.host(false)
	fin := "fin"
	if majorMinor(e.name) == "1.13" {
		fin = "plain" // its server does not answer
	}
	half := e.over.rdma && sparse // one role for each kind
	for i, way := range []string{"stream", "tag", "am"} {
		for _, size := range sizes {
			name := fmt.Sprintf("%s/%s/%sx%s/", e.name, way, size.pieces, size.length)
			iterations := "3"
			if way == "am" && majorMinor(e.name) == "1.13" {
				iterations = "1" // it counts messages that arrive together as one, even with itself
			}
			theirs := []string{"-c", way, "-i", iterations, "-v", size.pieces, "-s", size.length}
			ours := []string{iterations, size.pieces, size.length, fin}
			role := func(number int, name string, run func(t *testing.T)) {
				if !half || everyOther(i, number) {
					t.Run(name, run)
				}
			}
			role(0, name+"it serves", func(t *testing.T) {
				port, err := e.where.freePort()
				if err != nil {
					t.Fatal(err)
				}
				program := e.start(t, e.path, append(theirs, "-l", it.String(), "-p", port)...)
				program.says(t, "server is listening", 1)
				for range 2 { // it serves one client after the other
					p := e.start(t, e.partner, append([]string{way, "connect", it.String() + ":" + port}, ours...)...)
					if err := p.wait(operationLimit); err != nil {
						t.Fatal(err)
					}
				}
			})
			role(1, name+"it connects", func(t *testing.T) {
				p, port := e.listens(t, append([]string{way, "serve", us.String() + ":0"}, ours...)...)
				program := e.start(t, e.path, append(theirs, "-a", us.String(), "-p", port)...)
				for _, p := range []*process{p, program} {
					if err := p.wait(operationLimit); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// letters returns the end of ucp_hello_world's text, as far as its output is kept.
func letters(size int) string {
	b := make([]byte, min(size-1, tailSize/2))
	for i := range b {
		b[i] = 'A' + byte((size-1-len(b)+i)%26)
	}
	return string(b) + "\n"
}
