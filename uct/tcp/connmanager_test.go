//go:build linux

package tcp

import (
	"bytes"
	"errors"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var loopback4 = netip.MustParseAddr("127.0.0.1")

func connFixture(t *testing.T, at netip.Addr, device string, vars ...string) *ucttest.ConnFixture {
	t.Helper()
	return &ucttest.ConnFixture{Component: component{}, Config: set(t, vars...), Addr: at, Device: device}
}

func TestConnManagerConformance(t *testing.T) {
	needtest.Goroutines(t)
	for name, vars := range map[string][]string{
		"defaults":         nil,
		"inet6":            nil,
		"small sockets":    {"CM_SNDBUF", "1k", "CM_RCVBUF", "1k"},
		"more than fits":   {"CM_SNDBUF", "1k", "CM_RCVBUF", "1k", "CM_PRIV_DATA_LEN", "64k"},
		"no data":          {"CM_PRIV_DATA_LEN", "0"},
		"all the settings": {"CM_SYN_CNT", "3", "CM_USER_TIMEOUT", "10s", "CM_REUSEADDR", "y", "CM_FAILURE", "debug"},
	} {
		t.Run(name, func(t *testing.T) {
			at := loopback4
			if name == "inet6" {
				if !hasIPv6Loopback() {
					t.Skip("lo has no IPv6 address")
				}
				at = netip.IPv6Loopback()
			}
			ucttest.RunConnManager(t, *connFixture(t, at, "lo", vars...))
		})
	}
}

// TestConnManagerSettings checks the limit that C UCX publishes with its defaults, and the errors
// for invalid values.
func TestConnManagerSettings(t *testing.T) {
	for _, c := range []struct {
		vars []string
		want int
		says string
	}{
		{nil, 2064, ""},
		{[]string{"CM_PRIV_DATA_LEN", "0"}, 16, ""},
		{[]string{"CM_PRIV_DATA_LEN", "64k"}, 1<<16 + 16, ""},
		{[]string{"CM_PRIV_DATA_LEN", "auto"}, 2064, ""},
		{[]string{"CM_PRIV_DATA_LEN", "65k"}, 0, "UCX_TCP_CM_PRIV_DATA_LEN is 65K, the limit is 64K"},
		{[]string{"CM_PRIV_DATA_LEN", "inf"}, 0, "UCX_TCP_CM_PRIV_DATA_LEN is inf"},
		{[]string{"CM_SYN_CNT", "128"}, 0, "UCX_TCP_CM_SYN_CNT is 128, the limit is 127"},
		{[]string{"ALLOW", "10.0.0.1/8"}, 0, "UCX_TCP_ALLOW"},
	} {
		w, err := uct.NewWorker()
		if err != nil {
			t.Fatal(err)
		}
		m, err := component{}.OpenConnManager(w, set(t, c.vars...))
		switch {
		case c.says != "":
			if !errors.Is(err, ucs.ErrInvalidParam) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v: %v, want %q", c.vars, err, c.says)
			}
		case err != nil:
			t.Errorf("%v: %v", c.vars, err)
		default:
			if got := m.Attr().MaxPrivate; got != c.want {
				t.Errorf("%v: %d bytes of private data, want %d", c.vars, got, c.want)
			}
			m.Close()
		}
		w.Close()
	}
}

// TestConnManagerReuse: a port whose connections have just ended cannot be listened at, unless its
// reuse is allowed by this manager's setting, the general one, or the parameter.
func TestConnManagerReuse(t *testing.T) {
	for name, free := range map[string]bool{"": false, "TCP_CM_REUSEADDR": true, "CM_REUSEADDR": true} {
		f := connFixture(t, loopback4, "lo")
		if name != "" {
			if err := f.Config.Modify(name, "y"); err != nil {
				t.Fatal(err)
			}
		}
		a, b := f.Open(t), f.Open(t)
		l := b.Listen(t, uct.ListenParams{})
		_, served := a.Pair(t, b, l)
		l.Close()
		served.EP.Close() // the side that closes first keeps the port in TIME_WAIT
		a.Close(t)
		anybody := func(uct.Listener, *uct.ConnRequest) {}
		_, err := b.Manager.Listen(l.Addr(), uct.ListenParams{OnRequest: anybody})
		if free != (err == nil) || !free && !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("with %q: listening at a port that rests: %v", name, err)
		}
		if free {
			continue
		}
		for _, remedy := range []string{"ReuseAddr", "UCX_TCP_CM_REUSEADDR=y"} {
			if !strings.Contains(err.Error(), remedy) || !errors.Is(err, unix.EADDRINUSE) {
				t.Errorf("the error does not name %s: %v", remedy, err)
			}
		}
		again, err := b.Manager.Listen(l.Addr(), uct.ListenParams{OnRequest: anybody, ReuseAddr: true})
		if err != nil {
			t.Errorf("with the parameter: %v", err)
			continue
		}
		for _, reuse := range []bool{false, true} {
			third, err := b.Manager.Listen(again.Addr(), uct.ListenParams{OnRequest: anybody, ReuseAddr: reuse})
			if third != nil || !errors.Is(err, ucs.ErrBusy) || strings.Contains(err.Error(), "REUSEADDR") {
				t.Errorf("where somebody listens, reuse %t: %v", reuse, err)
			}
		}
	}
}

// TestConnManagerWildcards checks at which addresses a listener of all addresses is reached, what
// it reports about client and device, and that an address of IPv6 accepts both families.
func TestConnManagerWildcards(t *testing.T) {
	lo4, lo6 := []byte{0, unix.AF_INET, 127, 0, 0, 1}, append([]byte{0, unix.AF_INET6, 15: 0}, 0, 1)
	for _, c := range []struct {
		at, to, from string
		dev          []byte
	}{
		{"0.0.0.0", "127.0.0.1", "", lo4},
		{"0.0.0.0", "127.7.7.7", "127.0.0.1", lo4},
		{"0.0.0.0", "127.0.0.1", "127.6.6.6", lo4},
		{"0.0.0.0", "0.0.0.0", "", lo4},
		{"::", "127.0.0.1", "", lo4},
		{"::", "::ffff:127.0.0.1", "", lo4},
		{"::", "::1", "", lo6},
		{"::ffff:127.0.0.1", "127.0.0.1", "", lo4},
	} {
		t.Run(c.at+" "+c.to+" "+c.from, func(t *testing.T) {
			at := netip.MustParseAddr(c.at)
			if at.Is6() && !hasIPv6Loopback() {
				t.Skip("lo has no IPv6 address")
			}
			f := connFixture(t, at, "lo")
			a, b := f.Open(t), f.Open(t)
			l := b.Listen(t, uct.ListenParams{})
			if l.Addr().Addr() != at.Unmap() || l.Addr().Port() == 0 {
				t.Errorf("listens on %v", l.Addr())
			}
			p := uct.ConnectParams{Remote: netip.AddrPortFrom(netip.MustParseAddr(c.to), l.Addr().Port())}
			p.Pack = func(uct.PackArgs, []byte) (int, error) { return 0, nil }
			if c.from != "" {
				p.Local = netip.AddrPortFrom(netip.MustParseAddr(c.from), 0)
			}
			e := a.ConnectTo(t, p)
			r := b.Request(t, a)
			if r.Device != "lo" || e.Packed[0].Device != "lo" || !bytes.Equal(r.RemoteDeviceAddr, c.dev) {
				t.Errorf("device %q and %q, the client's is %x, want %x", r.Device, e.Packed[0].Device, r.RemoteDeviceAddr, c.dev)
			}
			if s := r.Source; !s.Local || s.User.Known && s.User.UID != unix.Getuid() || s.TLS != nil || s.Addr != e.EP.LocalAddr() {
				t.Errorf("the client is %+v", s)
			}
			b.Accept(t, r, nil)
			ucttest.UntilConn(t, "the answer", e.Up, a, b)
			if dev := e.Opened[0].RemoteDeviceAddr; dev[0] != 0 || len(dev) != len(c.dev) || e.EP.RemoteAddr() != r.LocalAddr {
				t.Errorf("the server's device address is %x, it is %v", dev, e.EP.RemoteAddr())
			}
		})
	}
}

// TestConnManagerSelf: a client that the kernel has connected with itself fails as if there were no
// listener.
func TestConnManagerSelf(t *testing.T) {
	h := connFixture(t, loopback4, "lo").Open(t)
	l := h.Listen(t, uct.ListenParams{})
	at := l.Addr()
	l.Close()
	e := h.ConnectTo(t, uct.ConnectParams{Remote: at, Local: at})
	ucttest.UntilConn(t, "the end", func() bool { return len(e.Opened) > 0 }, h)
	ucttest.WantStatus(t, "connecting with oneself", e.Opened[0].Err, ucs.ErrNotConnected)
}

// TestConnManagerAtOnce: an immediate failure is reported by progress, and a worker with a failure
// to report cannot be armed.
func TestConnManagerAtOnce(t *testing.T) {
	h := connFixture(t, loopback4, "lo").Open(t)
	e := h.ConnectTo(t, uct.ConnectParams{Remote: netip.MustParseAddrPort("224.0.0.1:5")})
	if err := h.Worker.Arm(); !errors.Is(err, ucs.ErrBusy) || len(e.Opened) != 0 {
		t.Errorf("arming: %v, told %v", err, e.Opened)
	}
	h.Worker.Progress()
	if len(e.Opened) != 1 || !errors.Is(e.Opened[0].Err, ucs.ErrUnreachable) {
		t.Errorf("told %v", e.Opened)
	}
	if err := h.Worker.Arm(); err != nil {
		t.Errorf("arming: %v", err)
	}
}

// TestConnManagerAllow: UCX_TCP_ALLOW applies to connection managers, too.
func TestConnManagerAllow(t *testing.T) {
	f := connFixture(t, loopback4, "lo", "ALLOW", "127.5.0.0/16")
	a, b := f.Open(t), f.Open(t)
	l := b.Listen(t, uct.ListenParams{})
	e := a.Connect(t, l, nil)
	ucttest.UntilConn(t, "the end", func() bool { return len(e.Opened) > 0 }, a, b)
	ucttest.WantStatus(t, "connecting from elsewhere", e.Opened[0].Err, ucs.ErrNotConnected)
	a.ConnectTo(t, uct.ConnectParams{Remote: l.Addr(), Local: netip.MustParseAddrPort("127.5.6.7:0")})
	if r := b.Request(t, a); r.Source.Addr.Addr() != netip.MustParseAddr("127.5.6.7") {
		t.Errorf("a request from %v", r.Source.Addr)
	}
}

// TestConnManagerTLS: with TLS required there is no connection manager, and the error says why.
func TestConnManagerTLS(t *testing.T) {
	comp := tlsComponent(t, certtest.New().Mutual("peer"))
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	m, err := comp.(uct.ConnManagerComponent).OpenConnManager(w, nil)
	if m != nil || !errors.Is(err, ucs.ErrUnsupported) || comp.Flags()&uct.ComponentFlagCM != 0 {
		t.Errorf("%v, %v, flags %x", m, err, comp.Flags())
	}
}

// inNamespace runs the test in a new network namespace, after these commands of ip. The thread ends
// with the test.
func inNamespace(t *testing.T, commands ...string) {
	t.Helper()
	if unix.Getuid() != 0 {
		needtest.Right(t, "root, to make network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		needtest.Tool(t, "the command ip")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		needtest.Right(t, "the right to make network namespaces: "+err.Error())
	}
	for _, c := range append([]string{"link set lo up"}, commands...) {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			needtest.Right(t, "the right to set up network devices: ip "+c+": "+string(out))
		}
	}
}

// TestConnManagerDevices covers several devices and addresses, link-local ones, and unreachable
// addresses.
func TestConnManagerDevices(t *testing.T) {
	inNamespace(t,
		"link add d0 type veth peer name p0", "link set p0 up", "link set d0 up", "addr add 192.0.2.1/24 dev d0", "addr add 192.0.2.2/24 dev d0", "addr add fe80::7/64 dev d0 nodad",
		"link add d1 type veth peer name p1", "link set p1 up", "link set d1 up", "addr add 198.51.100.1/24 dev d1", "addr add fe80::7/64 dev d1 nodad",
		"route add unreachable 203.0.113.0/24",
	)
	for text, device := range map[string]string{
		"192.0.2.1": "d0", "192.0.2.2": "d0", "198.51.100.1": "d1", "127.0.0.1": "lo", "fe80::7%d0": "d0", "fe80::7%d1": "d1",
	} {
		at := netip.MustParseAddr(text)
		f := connFixture(t, at, device)
		a, b := f.Open(t), f.Open(t)
		any := netip.IPv4Unspecified()
		if at.Is6() {
			any = netip.IPv6Unspecified()
		}
		f.Addr = any
		l := b.Listen(t, uct.ListenParams{})
		to := netip.AddrPortFrom(at, l.Addr().Port())
		e := a.ConnectTo(t, uct.ConnectParams{Remote: to, Pack: func(uct.PackArgs, []byte) (int, error) { return 0, nil }})
		r := b.Request(t, a)
		if r.Device != device || e.Packed[0].Device != device || r.LocalAddr.Addr().WithZone("") != at.WithZone("") {
			t.Errorf("%v: device %q and %q at %v, want %q", at, r.Device, e.Packed[0].Device, r.LocalAddr, device)
		}
		from := e.EP.LocalAddr().Addr()
		if want := append([]byte{0, family(from)}, from.AsSlice()...); !bytes.Equal(r.RemoteDeviceAddr, want) {
			t.Errorf("%v: the client's device address is %x, want %x", at, r.RemoteDeviceAddr, want)
		}
		if !r.Source.Local {
			t.Errorf("%v: the client is said to be elsewhere", at)
		}
		a.Close(t)
		b.Close(t)
	}
	h := connFixture(t, loopback4, "lo").Open(t)
	for to, want := range map[string]ucs.Status{
		"203.0.113.1:5":   ucs.ErrUnreachable, // no route to host
		"10.1.1.1:5":      ucs.ErrUnreachable, // no network
		"192.0.2.1:5":     ucs.ErrNotConnected,
		"[fe80::7%d0]:5":  ucs.ErrNotConnected,
		"[2001:db8::1]:5": ucs.ErrUnreachable,
	} {
		e := h.ConnectTo(t, uct.ConnectParams{Remote: netip.MustParseAddrPort(to)})
		if err := h.Worker.Arm(); len(e.Opened) == 0 && want == ucs.ErrUnreachable && !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("connecting to %s: the worker may sleep, %v", to, err)
		}
		ucttest.UntilConn(t, "the end", func() bool { return len(e.Opened) > 0 }, h)
		ucttest.WantStatus(t, "connecting to "+to, e.Opened[0].Err, want)
		if err := e.Opened[0].Err.Error(); !strings.Contains(err, to) || strings.Contains(err, netip.AddrPort{}.String()) {
			t.Errorf("connecting to %s: the error is %s", to, err)
		}
	}
	if _, err := h.Manager.Connect(uct.ConnectParams{
		Remote: netip.MustParseAddrPort("[fe80::7%nowhere]:5"), OnConnected: func(uct.ConnEndpoint, uct.ConnectedArgs) {},
	}); !errors.Is(err, ucs.ErrInvalidAddr) {
		t.Errorf("connecting over a device that is not there: %v", err)
	}
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
