//go:build linux

package tcp

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/uct"
)

// Tests that need network devices of their own run children of this test binary in new network
// namespaces, and exchange lines of text with them.

const childVar = "UCT_TCP_TEST_CHILD"

// node is a child in a network namespace.
type node struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startNode starts a child; its loopback device is up.
func startNode(t *testing.T) *node {
	t.Helper()
	if os.Getuid() != 0 {
		needtest.Right(t, "root, to make network namespaces")
	}
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			needtest.Tool(t, "the command "+tool)
		}
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		needtest.Right(t, fmt.Sprintf("the right to make network namespaces: %v", err))
	}
	n := &node{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	n.ip("link", "set", "lo", "up")
	return n
}

// sysctl changes a setting of the namespace's network.
func (n *node) sysctl(name, value string) {
	n.t.Helper()
	args := []string{"-t", strconv.Itoa(n.cmd.Process.Pid), "-n", "sh", "-c", "echo " + value + " >/proc/sys/net/" + name}
	if out, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
		needtest.Right(n.t, fmt.Sprintf("the right to set net/%s: %v: %s", name, err, out))
	}
}

// ip runs the ip command in the namespace.
func (n *node) ip(args ...string) {
	n.t.Helper()
	args = append([]string{"-t", strconv.Itoa(n.cmd.Process.Pid), "-n", "ip"}, args...)
	if out, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
		needtest.Right(n.t, fmt.Sprintf("the right to set up network devices: %v: %s", err, out))
	}
}

// do sends a command and returns the words of the reply.
func (n *node) do(format string, args ...any) []string {
	n.t.Helper()
	fmt.Fprintf(n.in, format+"\n", args...)
	return n.next()
}

// next returns the words of the next line.
func (n *node) next() []string {
	n.t.Helper()
	if !n.out.Scan() {
		n.t.Fatalf("child ended: %v", n.out.Err())
	}
	f := strings.Fields(n.out.Text())
	if len(f) > 0 && f[0] == "error" {
		n.t.Fatalf("child: %s", n.out.Text())
	}
	return f
}

// wire joins two nodes by a pair of devices with the given names and networks.
func wire(a, b *node, name, addrA, addrB string) {
	a.t.Helper()
	a.ip("link", "add", name, "type", "veth", "peer", "name", name, "netns", strconv.Itoa(b.cmd.Process.Pid))
	for n, addr := range map[*node]string{a: addrA, b: addrB} {
		n.ip("addr", "add", addr, "dev", name)
		n.ip("link", "set", name, "up")
	}
}

// child serves the commands of a node:
//
//	devices                     the usable devices
//	open DEVICE NAME=VALUE...   opens a device: its addresses
//	reopen DEVICE               waits until the device is unusable and opens it again: the error
//	connect DEV IFACE           makes an endpoint
//	reach DEV IFACE             yes or no
//	send N TEXT                 sends on an endpoint
//	got                         waits for a message
//	where                       number of connections to other machines, and to this one
//	dial FROM TO                connects a raw socket from an address: whether it is answered
//	newest                      address of the newest connection's peer, and whether it is local
//	failed                      waits for a failure: the endpoint
func child() {
	var h *host
	var eps []*endpoint
	t := &testing.T{}
	unhexed := func(s string) []byte { b, _ := hex.DecodeString(s); return b }
	lines := make(chan string)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
		os.Exit(0)
	}()
	for {
		var f []string
		select {
		case line := <-lines:
			f = strings.Fields(line)
		default:
			if h != nil {
				h.w.Progress()
				wait([]*host{h})
				continue
			}
			f = strings.Fields(<-lines)
		}
		switch f[0] {
		case "devices":
			md := newDomain(mdOptions{families: []bool{false, true}})
			list, err := md.Resources()
			if err != nil {
				fmt.Println("error", err)
			}
			var names []string
			for _, r := range list {
				names = append(names, r.Device)
			}
			fmt.Println(strings.Join(names, " "))
		case "open":
			if !listed(f[1], true) {
				fmt.Println("error: no device", f[1])
				continue
			}
			h = newHost(t, f[1], f[2:]...)
			fmt.Printf("%x %x\n", h.iface.DeviceAddress(), h.iface.Address())
		case "reopen":
			if !listed(f[1], false) {
				fmt.Println("error: still there:", f[1])
				continue
			}
			_, err := h.md.OpenIface(h.w, uct.IfaceParams{Transport: componentName, Device: f[1]}, nil)
			fmt.Println("opened:", err)
		case "connect":
			ep, err := h.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: unhexed(f[1]), IfaceAddr: unhexed(f[2])})
			if err != nil {
				fmt.Println("error", err)
				continue
			}
			eps = append(eps, ep.(*endpoint))
			for !connected(eps...)() && len(h.errs) == 0 {
				h.w.Progress()
				wait([]*host{h})
			}
			fmt.Println("connected", len(h.errs))
		case "reach":
			if h.iface.Reachable(uct.ReachableParams{DeviceAddr: unhexed(f[1]), IfaceAddr: unhexed(f[2])}) == nil {
				fmt.Println("yes")
			} else {
				fmt.Println("no")
			}
		case "send":
			i, _ := strconv.Atoi(f[1])
			fmt.Println("sent", eps[i].AMShort(1, 0, []byte(f[2]), 0, nil))
		case "got":
			for len(h.got) == 0 {
				h.w.Progress()
				wait([]*host{h})
			}
			fmt.Println(h.got[0].data[8:])
			h.got = h.got[1:]
		case "where":
			n := map[bool]int{}
			for c := h.iface.conns; c != nil; c = c.next {
				n[!c.here()]++
			}
			fmt.Println(n[true], n[false])
		case "dial":
			answer := make(chan string)
			go func() { answer <- dialBetween(f[1], f[2]) }()
			for what := ""; what == ""; {
				select {
				case what = <-answer:
					fmt.Println(what)
				default:
					var mine []*host // the peer may be this process
					if h != nil {
						h.w.Progress()
						mine = append(mine, h)
					}
					wait(mine)
				}
			}
		case "newest":
			info := h.iface.conns.SourceInfo()
			fmt.Println(info.Addr.Addr(), info.Local, info.User.Known)
		case "failed":
			for len(h.failed) == 0 {
				h.w.Progress()
				wait([]*host{h})
			}
			i := 0
			for uct.Endpoint(eps[i]) != h.failed[0] {
				i++
			}
			fmt.Println(i, h.errs[0])
			h.failed, h.errs = h.failed[1:], h.errs[1:]
		}
	}
}

// dialBetween connects from one address to another and sends a connection request. A link-local
// source has its device as its zone. The connection stays open; the result says whether it was
// answered.
func dialBetween(from, to string) string {
	d := net.Dialer{Timeout: time.Minute, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	c, err := d.Dial("tcp", to)
	if err == nil {
		c.SetDeadline(time.Now().Add(hangs))
		_, err = c.Write(flight(addr("[2001:db8::5]:5"), 0))
	}
	if err == nil {
		dialed = append(dialed, c)
		_, err = io.ReadFull(c, make([]byte, len(ack)))
	}
	switch {
	case err == nil:
		return "heard"
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return "refused"
	}
	return fmt.Sprint("error ", err)
}

// dialed are the connections of dialBetween, kept from being garbage collected.
var dialed []net.Conn

// listed waits until a device is usable, or until it is not: the kernel takes a moment to detect
// the carrier.
func listed(name string, usable bool) bool {
	for range 500 {
		devs, err := netdevs(mdOptions{families: []bool{false}})
		if _, ok := deviceOf(devs, name); ok == usable {
			return true
		}
		if err != nil {
			break
		}
		unix.Poll(nil, 10)
	}
	return false
}

// TestDeviceWithoutCarrier: a device that was usable, and still has its address, is not opened
// while it has no carrier.
func TestDeviceWithoutCarrier(t *testing.T) {
	a, b := startNode(t), startNode(t)
	wire(a, b, "net0", "10.1.0.1/24", "10.1.0.2/24")
	a.do("open net0")
	b.ip("link", "set", "net0", "down")
	if got := strings.Join(a.do("reopen net0"), " "); !strings.Contains(got, `no usable device "net0"`) {
		t.Error(got)
	}
}

// TestTwoDevices: every usable device is a resource, and messages use the device that they were
// sent on.
func TestTwoDevices(t *testing.T) {
	a, b := startNode(t), startNode(t)
	wire(a, b, "net0", "10.1.0.1/24", "10.1.0.2/24")
	wire(a, b, "net1", "10.2.0.1/24", "10.2.0.2/24")
	a.ip("link", "add", "br0", "type", "bridge")
	a.ip("addr", "add", "10.3.0.1/24", "dev", "br0")
	a.ip("link", "set", "br0", "up")
	a.ip("link", "add", "down0", "type", "veth", "peer", "name", "local0")
	a.ip("addr", "add", "10.4.0.1/24", "dev", "down0")
	a.ip("addr", "add", "169.254.7.7/16", "dev", "local0")
	a.ip("link", "set", "local0", "up")
	a.ip("link", "add", "cut0", "type", "veth", "peer", "name", "cut1")
	a.ip("addr", "add", "10.5.0.1/24", "dev", "cut0")
	a.ip("link", "set", "cut0", "up") // without carrier
	a.do("open net0")
	a.do("open net1")
	if got := strings.Join(a.do("devices"), " "); got != "lo net0 net1" {
		t.Fatalf("devices %q", got)
	}
	for i, dev := range []string{"net0", "net1"} {
		addrA, addrB := a.do("open %s", dev), b.do("open %s", dev)
		if len(addrA) != 2 || addrA[0] != fmt.Sprintf("00020a0%d0001", i+1) {
			t.Errorf("%s has address %v", dev, addrA)
		}
		if r := a.do("reach %s %s", addrB[0], addrB[1]); r[0] != "yes" {
			t.Errorf("%s does not reach its other end", dev)
		}
		other := fmt.Sprintf("00020a0%d0002", 2-i)
		if r := a.do("reach %s 0001", other); r[0] != "no" {
			t.Errorf("%s claims to reach the other network", dev)
		}
		if r := a.do("connect %s %s", addrB[0], addrB[1]); r[1] != "0" {
			t.Fatalf("%s: %v", dev, r)
		}
		a.do("send %d over-%s", i, dev)
		if got := b.do("got"); got[0] != "over-"+dev {
			t.Errorf("%s: got %v", dev, got)
		}
	}
}

// TestNoPorts: when all ports are in use, the error names the limit.
func TestNoPorts(t *testing.T) {
	n := startNode(t)
	addr := n.do("open lo MAX_CONN_RETRIES=1")
	n.sysctl("ipv4/ip_local_port_range", "40000 40003")
	for range 4 {
		if r := n.do("connect %s %s", addr[0], addr[1]); r[1] != "0" {
			t.Fatalf("with ports left: %v", n.do("failed"))
		}
	}
	if r := n.do("connect %s %s", addr[0], addr[1]); r[1] != "1" {
		t.Fatalf("without ports: %v", r)
	}
	failure := strings.Join(n.do("failed"), " ")
	if !strings.Contains(failure, "all ports of 40000 to 40003") || !strings.Contains(failure, "sysctl net.ipv4.ip_local_port_range") {
		t.Errorf("%q does not name the limit", failure)
	}
}

// TestElsewhere: a connection detects whether its peer is on another machine, which here is another
// network namespace.
func TestElsewhere(t *testing.T) {
	a, b := startNode(t), startNode(t)
	wire(a, b, "net0", "10.1.0.1/24", "10.1.0.2/24")
	addrA, addrB := a.do("open net0"), b.do("open net0")
	a.do("connect %s %s", addrB[0], addrB[1])
	a.do("send 0 there")
	b.do("got")
	if n := b.do("where"); n[0] != "1" || n[1] != "0" {
		t.Errorf("of the connections of the other machine lead elsewhere, and not: %v", n)
	}
	// A connection to itself by the device's address: both ends are local.
	a.do("connect %s %s", addrA[0], addrA[1])
	if n := a.do("where"); n[0] != "1" || n[1] != "2" {
		t.Errorf("of connections to another machine and to this one lead elsewhere, and not: %v", n)
	}
}

// TestLinkLocal: a link-local address is one together with the device that its connection arrives
// on. A peer with such an address is on another machine even if another device of this machine has
// the same address, and UCX_TCP_ALLOW applies to it. A connection from this machine's own address
// on the device is local.
func TestLinkLocal(t *testing.T) {
	a, b := startNode(t), startNode(t)
	wire(a, b, "net0", "10.1.0.1/24", "10.1.0.2/24")
	wire(a, b, "net1", "10.2.0.1/24", "10.2.0.2/24")
	for _, at := range []struct {
		n         *node
		addr, dev string
	}{
		{a, "2001:db8::1/64", "net0"}, {a, "fe80::1/64", "net0"}, {a, "fe80::7/64", "net1"},
		{b, "2001:db8::2/64", "net0"}, {b, "fe80::7/64", "net0"},
	} {
		at.n.ip("addr", "add", at.addr, "dev", at.dev, "nodad")
	}
	listener := func(vars string) string {
		t.Helper()
		port, err := strconv.ParseUint(a.do("open net0 AF_PRIO=inet6 %s", vars)[1], 16, 16)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("[2001:db8::1]:%d", port)
	}
	dials := func(n *node, from, to, want string) {
		t.Helper()
		if got := n.do("dial %s %s", from, to); got[0] != want {
			t.Errorf("from %s: %v, want %s", from, got, want)
		}
	}
	to := listener("")
	dials(b, "fe80::7%net0", to, "heard")
	got := a.do("newest")
	if who, zone, _ := strings.Cut(got[0], "%"); who != "fe80::7" || zone == "" || got[1] != "false" || got[2] != "false" {
		t.Errorf("a peer on the link is %v", got)
	}
	dials(a, "fe80::1%net0", to, "heard")
	if got := a.do("newest"); !strings.HasPrefix(got[0], "fe80::1%") || got[1] != "true" {
		t.Errorf("this machine, from an address of its link, is %v", got)
	}
	dials(b, "fe80::7%net0", listener("ALLOW=fe80::/64"), "heard")
	dials(b, "2001:db8::2", listener("ALLOW=fe80::/64"), "refused")
	dials(b, "fe80::7%net0", listener("ALLOW=fe80::7"), "heard")
	dials(b, "fe80::7%net0", listener("ALLOW=2001:db8::/32"), "refused")
}

// TestUnplugged: both sides detect a disconnected peer, by keepalive when they are idle, and by
// unacknowledged output otherwise.
func TestUnplugged(t *testing.T) {
	needtest.Goroutines(t)
	if testing.Short() {
		t.Skip("waits for keepalive")
	}
	a, b := startNode(t), startNode(t)
	wire(a, b, "net0", "10.1.0.1/24", "10.1.0.2/24")
	const keep = "KEEPIDLE=1s KEEPINTVL=1s KEEPCNT=2"
	a.do("open net0 " + keep)
	addrB := b.do("open net0 " + keep)
	for range 2 {
		a.do("connect %s %s", addrB[0], addrB[1])
	}
	b.ip("link", "set", "net0", "down")
	begin := time.Now()
	a.do("send 1 lost")
	seen := map[string]bool{}
	for range 2 {
		f := a.do("failed")
		seen[f[0]] = true
		if msg := strings.Join(f, " "); !strings.Contains(msg, unix.ETIMEDOUT.Error()) && !strings.Contains(msg, unix.EHOSTUNREACH.Error()) {
			t.Errorf("failure %q", msg)
		}
	}
	if !seen["0"] || !seen["1"] {
		t.Errorf("failed: %v", seen)
	}
	t.Logf("found after %v", time.Since(begin))
}
