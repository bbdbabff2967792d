//go:build linux

package pingpong

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// eventTimeout bounds the wait for an event that should happen.
const eventTimeout = 60 * time.Second

// envTool names the variable that makes the test binary run as a tool, envGrace the one with the
// tool's grace.
const (
	envTool  = "PINGPONG_TEST_TOOL"
	envGrace = "PINGPONG_TEST_GRACE"
)

var tools = []*Tool{RC, UC, UD, SRQ}

func TestMain(m *testing.M) {
	grace = 2 * time.Second
	if d, err := time.ParseDuration(os.Getenv(envGrace)); err == nil {
		grace = d
	}
	name := os.Getenv(envTool)
	for _, t := range tools {
		if t.Name == name {
			t.Main()
		}
	}
	grace = 100 * time.Millisecond // pending messages are received first, however late
	os.Exit(m.Run())
}

// listened waits until a process listens on a TCP port. It does not connect, because the tools
// accept one connection.
func listened(t *testing.T, port int, ended <-chan struct{}) {
	t.Helper()
	row := regexp.MustCompile(fmt.Sprintf(`: [0-9A-F]+:%04X [0-9A-F]+:0000 0A `, port))
	for end := time.Now().Add(eventTimeout); ; runtime.Gosched() {
		for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			if b, _ := os.ReadFile(name); row.Match(b) {
				return
			}
		}
		select {
		case <-ended:
			return // the caller reports the reason
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("nobody listens on port %d", port)
		}
	}
}

// text is output that can be read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(b)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// proxy forwards the data between a client and a server, and records it.
type proxy struct {
	port  int
	heard [2]text          // data of the client, of the server
	stays [2]chan struct{} // closed when that end has announced that it stays
	over  chan struct{}
}

func newProxy(t *testing.T, server int) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{port: l.Addr().(*net.TCPAddr).Port, stays: [2]chan struct{}{make(chan struct{}), make(chan struct{})}, over: make(chan struct{})}
	var mu sync.Mutex
	open := []io.Closer{l} // under mu
	t.Cleanup(func() {
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		<-p.over
	})
	go func() {
		defer close(p.over)
		client, err := l.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", server))
		if err != nil {
			return
		}
		defer server.Close()
		mu.Lock()
		open = append(open, client, server)
		mu.Unlock()
		var both sync.WaitGroup
		both.Add(2)
		go func() { defer both.Done(); p.copy(0, server, client) }()
		go func() { defer both.Done(); p.copy(1, client, server) }()
		both.Wait()
	}()
	return p
}

// copy forwards data as it arrives: the C tools read an address at once.
func (p *proxy) copy(from int, to, of net.Conn) {
	b := make([]byte, 4096)
	said := false
	for {
		n, err := of.Read(b)
		if err != nil {
			break
		}
		p.heard[from].Write(b[:n])
		to.Write(b[:n]) // an error is ignored: the receiver may have closed
		if !said && strings.HasSuffix(p.heard[from].String(), stays) {
			said = true
			close(p.stays[from])
		}
	}
	to.(*net.TCPConn).CloseWrite()
}

// await waits for a channel.
func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(eventTimeout):
		t.Fatalf("waited in vain for %s", what)
	}
}

// The parts of a tool's output that differ in another run: addresses and times. Counts are the
// same.
var (
	reHex    = regexp.MustCompile(`0x[0-9a-f]+`)
	reGID    = regexp.MustCompile(`GID \S+`)
	reRate   = regexp.MustCompile(`[0-9]+\\\.[0-9]{2}`)
	reRemote = regexp.MustCompile(`(?m)^  remote address: (.*)$`)
	reLocal  = regexp.MustCompile(`(?m)^  local address:  (.*)$`)
)

// pattern returns a regular expression for the output of a tool.
func pattern(out string) string {
	p := regexp.QuoteMeta(out)
	p = reHex.ReplaceAllStringFunc(p, func(s string) string { return fmt.Sprintf("0x[0-9a-f]{%d}", len(s)-2) })
	p = reGID.ReplaceAllString(p, `GID [0-9a-f:.]+`)
	return "^" + reRate.ReplaceAllString(p, `[0-9]+\.[0-9]{2}`) + "$"
}

// sameLines checks that two tools print the same, and that each reports the address of the other.
func sameLines(t *testing.T, a, b string) {
	t.Helper()
	if !regexp.MustCompile(pattern(a)).MatchString(b) {
		t.Errorf("the lines differ:\n%s\n%s", a, b)
	}
	addresses := func(re *regexp.Regexp, s string) (list []string) {
		for _, m := range re.FindAllStringSubmatch(s, -1) {
			list = append(list, strings.Replace(m[1], ": GID", ", GID", 1))
		}
		return list
	}
	for _, c := range [][2]string{{a, b}, {b, a}} {
		local, remote := addresses(reLocal, c[0]), addresses(reRemote, c[1])
		if len(local) == 0 || strings.Join(local, "\n") != strings.Join(remote, "\n") {
			t.Errorf("one end is %q, the other sees %q", local, remote)
		}
	}
}

// goodLines are the lines of ibv_rc_pingpong of rdma-core 44, with one queue pair.
const goodLines = `  local address:  LID 0x0000, QPN 0x000011, PSN 0x8ae80e%s GID ::ffff:10.9.0.1
  remote address: LID 0x0000, QPN 0x000011, PSN 0xa073ce, GID ::ffff:10.9.0.2
%d bytes in 0.04 seconds = 74.58 Mbit/sec
%d iters in 0.04 seconds = 878.68 usec/iter
`

// checkLines compares the output of a tool with goodLines.
func checkLines(t *testing.T, tool *Tool, size, iters int, out string) {
	t.Helper()
	sep := ","
	if tool == UD {
		sep = ":"
	}
	want := strings.SplitAfterN(fmt.Sprintf(goodLines, sep, 2*size*iters, iters), "\n", 3)
	n := 1
	if tool == SRQ {
		n = strings.Count(out, "local address")
	}
	p := pattern(strings.Repeat(want[0], n) + strings.Repeat(want[1], n) + want[2])
	if !regexp.MustCompile(p).MatchString(out) {
		t.Errorf("printed\n%swant\n%s", out, p)
	}
}
