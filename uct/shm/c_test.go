//go:build linux

package shm

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// cInstallation is a C UCX that testdata/uctpeer.c was built with.
type cInstallation struct {
	prefix, program string
	release         uct.PeerRelease
}

// buildC builds the C peer for the distribution's C UCX and for those of CPEERS.
func buildC(t *testing.T) []cInstallation {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		needtest.Tool(t, "gcc, to build the C peer")
	}
	dir := t.TempDir()
	var list []cInstallation
	for n, prefix := range append([]string{"/usr"}, filepath.SplitList(os.Getenv("CPEERS"))...) {
		header, err := os.ReadFile(filepath.Join(prefix, "include/uct/api/version.h"))
		if err != nil {
			continue
		}
		c := cInstallation{prefix: prefix, program: filepath.Join(dir, fmt.Sprint("uctpeer", n)), release: uct.PeerRelease122}
		if _, rest, _ := strings.Cut(string(header), "#define UCT_VERNO_MINOR "); minor(rest) < 16 {
			c.release = uct.PeerRelease113
		}
		lib := filepath.Join(prefix, "lib")
		cmd := exec.Command("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-isystem", filepath.Join(prefix, "include"),
			"testdata/uctpeer.c", "-o", c.program, "-L"+lib, "-Wl,-rpath,"+lib, "-luct", "-lucs")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		needtest.Tool(t, "a C UCX to test against: /usr/include/uct/api/version.h, or CPEERS")
	}
	return list
}

// minor returns the number that text begins with.
func minor(text string) (n int) {
	fmt.Sscan(text, &n)
	return n
}

// cPeer is a running C process.
type cPeer struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string

	dev, addr, key []byte
	mem            uint64
}

func startC(t *testing.T, c cInstallation, transport string, env ...string) *cPeer {
	t.Helper()
	p := &cPeer{t: t, cmd: exec.Command(c.program, transport), lines: make(chan string, 16)}
	p.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(c.prefix, "lib"))
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			p.lines <- s.Text()
		}
		close(p.lines)
	}()
	t.Cleanup(func() {
		p.in.Close()
		p.cmd.Process.Kill()
		for range p.lines {
		}
		<-done
		p.cmd.Wait()
	})
	p.send("address")
	f := strings.Fields(p.line())
	if len(f) != 4 {
		t.Fatalf("address of the C peer: %q", f)
	}
	p.dev, p.addr, p.key = ucttest.Unhex(t, f[0]), ucttest.Unhex(t, f[1]), ucttest.Unhex(t, f[2])
	fmt.Sscan(f[3], &p.mem)
	return p
}

func (p *cPeer) send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
}

// line returns the next line that the peer prints, and progresses the hosts meanwhile.
func (p *cPeer) line(hosts ...*ucttest.Host) string {
	p.t.Helper()
	for {
		if len(hosts) == 0 {
			line, ok := <-p.lines
			if !ok {
				p.t.Fatal("the C peer has ended")
			}
			return line
		}
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatal("the C peer has ended")
			}
			return line
		default:
			ucttest.Progress(hosts...)
			runtime.Gosched()
		}
	}
}

// want sends a command and checks the answer to it.
func (p *cPeer) want(answer string, hosts []*ucttest.Host, format string, args ...any) {
	p.t.Helper()
	p.send(format, args...)
	if got := p.line(hosts...); got != answer {
		p.t.Fatalf(format+": the C peer says %q, want %q", append(args, got, answer)...)
	}
}

// pattern returns the message or memory with number seq, as fill of uctpeer.c makes it.
func pattern(n int, seq uint64) []byte {
	b := make([]byte, n)
	binary.LittleEndian.PutUint64(b, seq)
	for i := 8; i < n; i++ {
		b[i] = byte(seq) + byte(i)
	}
	return b
}

// overC runs a test over both transports with every C installation.
func overC(t *testing.T, test func(t *testing.T, c cInstallation, transport string)) {
	for _, c := range buildC(t) {
		for _, transport := range []string{posixName, sysvName} {
			t.Run(fmt.Sprintf("%s, release %d, %s", transport, c.release, c.prefix), func(t *testing.T) { test(t, c, transport) })
		}
	}
}

// openFor opens a host for peers of a release.
func openFor(t *testing.T, transport string, release uct.PeerRelease, settings map[string]string) *ucttest.Host {
	t.Helper()
	all := map[string]string{}
	if release == uct.PeerRelease113 {
		all[strings.ToUpper(transport)+"_FIFO_SIZE"] = "64"
	}
	for name, value := range settings {
		all[name] = value
	}
	return (&ucttest.Fixture{Component: component{transport}, Config: setting(t, all)}).Open(t)
}

func TestAgainstC(t *testing.T) {
	needtest.Goroutines(t)
	overC(t, func(t *testing.T, c cInstallation, transport string) {
		modes := []map[string]string{nil}
		if transport == posixName {
			modes = append(modes,
				map[string]string{"POSIX_USE_PROC_LINK": "n"},
				map[string]string{"POSIX_USE_PROC_LINK": "n", "POSIX_DIR": shmDir(t)})
		}
		for n, mode := range modes {
			t.Run(fmt.Sprint("mode ", n), func(t *testing.T) { exchangeWithC(t, c, transport, mode) })
		}
	})
}

// TestSegSizesAgainstC exchanges messages as long as receive buffers are, or as messages can be. A
// length has 16 bits: if its buffers are longer, C sends 65536 bytes with the length 0. The
// messages next to it must be unharmed.
func TestSegSizesAgainstC(t *testing.T) {
	needtest.Goroutines(t)
	overC(t, func(t *testing.T, c cInstallation, transport string) {
		prefix := strings.ToUpper(transport) + "_"
		for _, size := range []int{9, 333, 65535, 65536, 65537, 100001, 1 << 20} {
			t.Run(fmt.Sprint(size), func(t *testing.T) {
				longest := min(size, 65535)
				settings := map[string]string{prefix + "SEG_SIZE": fmt.Sprint(size)}
				h := openFor(t, transport, c.release, settings)
				// C needs 512 buffers of this size in memory. A container of Docker has 64 MB.
				if need := 513 * (size + 64); transport == posixName && freeIn(t, defaultDir) < need {
					t.Skipf("missing: %d bytes in %s (docker: --shm-size)", need, defaultDir)
				}
				if got := h.Iface.Attr().AM.MaxBcopy; got != longest {
					t.Errorf("messages of %d bytes at most, want %d", got, longest)
				}
				p := startC(t, c, transport, "UCX_"+prefix+"SEG_SIZE="+settings[prefix+"SEG_SIZE"])
				seen := uint64(0)
				got := h.Collect(t, 6)
				ep := h.NewEndpoint(t, uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
				p.want("ok", nil, "connect %x %x", h.Iface.DeviceAddress(), h.Iface.Address())
				check := func(what string, n, length int) {
					t.Helper()
					p.want("ok", []*ucttest.Host{h}, "bcopy %d %d %d", seen, n, length)
					got.Wait(t, n, h)
					for _, m := range got.Take() {
						ucttest.SameBytes(t, what, m.Data, pattern(length, seen))
						seen++
					}
				}
				const many = 150 // more than two rounds of the ring of 1.13
				check("a message from C", many, longest)
				if size > longest {
					p.want("ok", []*ucttest.Host{h}, "bcopy %d 1 65536", seen)
					got.Wait(t, 1, h)
					if m := got.Take()[0]; len(m.Data) != 0 {
						t.Errorf("65536 bytes have become %d", len(m.Data))
					}
					seen++
					check("a message from C behind a lost one", many, longest)
				}
				p.send("receive %d", many)
				for n := range uint64(many) {
					msg := pattern(longest, n)
					ucttest.Accept(t, func() error {
						_, err := ep.AMBcopy(6, &ucttest.Packer{Data: msg}, 0, nil)
						return err
					}, h)
				}
				if got := p.line(); got != "ok 0 wrong" {
					t.Errorf("the C peer has received: %s", got)
				}
			})
		}
	})
}

// freeIn returns how many bytes are free in a file system.
func freeIn(t testing.TB, dir string) int {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	return int(s.Bavail) * int(s.Bsize)
}

// exchangeWithC runs all operations between a C process and this one, both with the same settings.
func exchangeWithC(t *testing.T, c cInstallation, transport string, settings map[string]string) {
	h := openFor(t, transport, c.release, settings)
	hosts := []*ucttest.Host{h}
	var env []string
	for name, value := range settings {
		env = append(env, "UCX_"+name+"="+value)
	}
	p := startC(t, c, transport, env...)
	received := uint64(0)
	var keep []*uct.AMDesc
	handler := func(_ *uct.Source, data []byte, desc *uct.AMDesc) error {
		ucttest.SameBytes(t, fmt.Sprintf("message %d", received), data, pattern(len(data), received))
		received++
		if desc != nil && received%5 == 0 {
			keep = append(keep, desc)
			return ucs.InProgress
		}
		return nil
	}
	h.Handle(t, 5, handler)
	h.Handle(t, 6, handler)
	ep := h.NewEndpoint(t, uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
	if settings["POSIX_USE_PROC_LINK"] == "n" && host.OwnNamespace(topo.NamespacePID).Other {
		// uct_posix_is_reachable wants the initial namespace if an address names none.
		p.want("unreachable", nil, "connect %x %x", h.Iface.DeviceAddress(), h.Iface.Address())
		t.Skip("C UCX reaches no memory with a name in a PID namespace other than the machine's")
	}
	p.want("ok", nil, "connect %x %x", h.Iface.DeviceAddress(), h.Iface.Address())

	// Messages from C, several rounds of the ring.
	const many = 1000
	p.want("ok", hosts, "short 0 %d 18", many)
	p.want("ok", hosts, "bcopy %d %d 8256", many, many)
	p.want("ok", hosts, "short %d %d 100", 2*many, many)
	ucttest.Until(t, "all messages", func() bool { return received == 3*many }, h)
	for _, d := range keep {
		d.Release()
	}

	// The same messages to C, which keeps some.
	p.want("ok", nil, "keep 300")
	p.send("receive %d", 3*many)
	for n := range uint64(3 * many) {
		msg := pattern([]int{18, 8256, 100}[n/many], n)
		ucttest.Accept(t, func() error {
			if n/many == 1 {
				_, err := ep.AMBcopy(6, &ucttest.Packer{Data: msg}, 0, nil)
				return err
			}
			return ep.AMShort(5, n, msg[8:], 0, nil)
		}, h)
	}
	if got := p.line(); got != "ok 0 wrong" {
		t.Fatalf("the C peer has received: %s", got)
	}
	p.want("ok", nil, "release")

	// Each side wakes the other.
	ucttest.Settle(h)
	ucttest.Until(t, "being armed", func() bool { return h.Worker.Arm() == nil }, h)
	p.want("ok", nil, "short %d 1 20", 3*many)
	fds := []unix.PollFd{{Fd: int32(h.Worker.EventFD()), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 20000); n != 1 {
		t.Fatalf("not woken by C: %v", err)
	}
	ucttest.Until(t, "the message that woke us", func() bool { return received == 3*many+1 }, h)
	p.want("armed", nil, "sleep")
	ucttest.Accept(t, func() error { return ep.AMShort(5, 3*many, pattern(20, 3*many)[8:], 0, nil) }, h)
	if got := p.line(); got != "woken" {
		t.Fatalf("the C peer is %s", got)
	}
	p.want("ok 0 wrong", nil, "receive %d", 3*many+1)

	// This process accesses memory of C.
	key, err := h.Domain.UnpackRkey(p.key)
	if err != nil {
		t.Fatal(err)
	}
	if err := ep.(uct.RMA).PutShort(pattern(40000, 77), p.mem, key); err != nil {
		t.Fatal(err)
	}
	p.want("77", nil, "word 0")
	var old uint64
	if err := ep.(uct.Atomic).Atomic64Fetch(uct.AtomicAdd, 5, &old, p.mem, key, nil); err != nil || old != 77 {
		t.Fatalf("fetch and add: %d, %v", old, err)
	}
	p.want("82", nil, "word 0")
	ptr, err := h.Domain.RkeyPtr(key, p.mem, 40000)
	if err != nil {
		t.Fatal(err)
	}
	ucttest.SameBytes(t, "memory of the peer", ptr[8:], pattern(40000, 77)[8:])
	if err := ep.(uct.RMA).PutShort(make([]byte, 8), p.mem+65536, key); !errors.Is(err, ucs.ErrInvalidAddr) {
		t.Errorf("put behind the key: %v", err)
	}
	if err := h.Domain.ReleaseRkey(key); err != nil {
		t.Error(err)
	}

	// C accesses memory of this process.
	mem := h.Expose(t, make([]byte, 65536), uct.AccessAll)
	packed, err := h.Domain.AppendKey(nil, mem.Handle)
	if err != nil {
		t.Fatal(err)
	}
	p.want("ok", nil, "unpack %x %d", packed, mem.Addr)
	p.want("ok", nil, "put 16 5000")
	ucttest.SameBytes(t, "memory that C has put to", mem.Bytes[16:5016], pattern(5000, 16))
	p.want("16", nil, "fadd 16 4")
	p.want("20", nil, "fadd 16 0")
	if got := binary.LittleEndian.Uint64(mem.Bytes[16:]); got != 20 {
		t.Errorf("memory that C has added to holds %d", got)
	}
	p.want(hex.EncodeToString(mem.Bytes[16:116]), nil, "get 16 100")
	p.want("Success", nil, "check")

	// C ends: a message already sent is lost, and the next check fails.
	p.send("quit")
	p.cmd.Wait()
	ucttest.Until(t, "the end of the peer to be noticed", func() bool {
		ep.Check(nil)
		return h.Failed(ep) != nil
	}, h)
}

// TestOtherRing checks that a ring of C is refused if its length differs from that of this process,
// or does not fit its size, and that the error says what to do.
func TestOtherRing(t *testing.T) {
	overC(t, func(t *testing.T, c cInstallation, transport string) {
		other := uct.PeerRelease113 + uct.PeerRelease122 - c.release
		h := openFor(t, transport, other, nil)
		p := startC(t, c, transport)
		logtest.Watch(t)
		set := "UCX_PEER_RELEASE=" + map[uct.PeerRelease]string{uct.PeerRelease113: "1.13", uct.PeerRelease122: "1.22"}[c.release]
		err := h.Iface.Reachable(uct.ReachableParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
		if !errors.Is(err, ucs.ErrUnreachable) || !errors.Is(err, uct.ErrMismatch) || !strings.Contains(err.Error(), set) {
			t.Errorf("reachable: %v", err)
		}
		// C assumes that its peers have its own settings.
		name := "UCX_" + strings.ToUpper(transport) + "_FIFO_SIZE=%d"
		q := startC(t, c, transport, fmt.Sprintf(name, 1024))
		if err := h.Iface.Reachable(uct.ReachableParams{DeviceAddr: q.dev, IfaceAddr: q.addr}); !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("reachable with 1024 elements: %v", err)
		}
	})
}
