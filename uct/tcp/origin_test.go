//go:build linux

package tcp

import (
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/netlink/netlinktest"
	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
)

// TestAskedAgain: a query of the kernel that fails for lack of descriptors is no answer. It is
// repeated, but not at once.
func TestAskedAgain(t *testing.T) {
	h := newHost(t, "")
	p := dial(t, h)
	p.send(flight(addr("127.0.0.1:5"), 0))
	p.want(ack)
	c := h.iface.conns
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = uint64(lowestFreeFD(t))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	_, err := c.peerSocket()
	who := c.findOwner()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if !sockdiag.Transient(err) || who != ownerUnsure {
		t.Fatalf("without descriptors: %v, %v", err, who)
	}
	if _, err := c.peerSocket(); err != errBusy {
		t.Errorf("asked at once: %v", err)
	}
	if !c.from.placed || c.claimVerified() {
		t.Error("a claim is believed that nobody could look into")
	}
	until(t, "the answer", func() bool {
		_, err := c.peerSocket()
		return !sockdiag.Transient(err)
	}, h)
	if uid, sure := c.localUser(); !sure || c.from.err == nil && uid != unix.Getuid() {
		t.Errorf("user %d, sure %v", uid, sure)
	}
}

// TestOwnAddrsUnknown: if the machine's addresses cannot be read, a peer's address does not count
// as that of another machine.
func TestOwnAddrsUnknown(t *testing.T) {
	h := newHost(t, "")
	s := h.iface.svc
	at := netip.MustParseAddr("10.0.0.1")
	var failing error = unix.ENOBUFS
	reads := 0
	s.own.read = func() (map[netip.Addr]uint32, error) {
		reads++
		return map[netip.Addr]uint32{at: 1}, failing
	}
	enter(t, h, "10.0.0.1", 0)
	c := h.iface.conns
	if c.here() || !c.mayBeHere() || c.from.placed {
		t.Error("taken for somebody elsewhere")
	}
	before := reads
	for range 100 {
		c.here()
	}
	if reads != before {
		t.Errorf("asked %d times at once", reads-before)
	}
	sa := addr("10.0.0.1:5")
	dev := deviceAddr{ip: at}
	params := uct.ReachableParams{DeviceAddr: dev.pack(), IfaceAddr: []byte{byte(sa.port >> 8), byte(sa.port)}}
	if where, here, err := h.iface.PeerAddr(params); err == nil {
		t.Errorf("an address is said to be %v, here %v", where, here)
	}
	failing = nil
	until(t, "the answer", c.here, h)
	failing = unix.EPERM
	q := dialAs(t, h, "10.0.0.2")
	s.own.until = 0
	if c := h.iface.conns; c.mayBeHere() {
		t.Error("where the kernel does not want to say all are local")
	}
	q.close()
}

// TestTornDump: a list of addresses that changed while it was read is not used.
func TestTornDump(t *testing.T) {
	dump, err := syscall.NetlinkRIB(unix.RTM_GETADDR, unix.AF_UNSPEC)
	if err != nil {
		t.Fatal(err)
	}
	if ips, err := parseOwnAddrs(dump); err != nil || len(ips) == 0 {
		t.Fatalf("%v, %v", ips, err)
	}
	dump[6] |= unix.NLM_F_DUMP_INTR // the flags of the first message
	if _, err := parseOwnAddrs(dump); !sockdiag.Transient(err) {
		t.Errorf("%v", err)
	}
}

// TestZones: one link-local address on two links counts as two addresses.
func TestZones(t *testing.T) {
	sa := &syscall.SockaddrInet6{Port: 5, ZoneId: 2, Addr: netip.MustParseAddr("fe80::1").As16()}
	a := inet.AddrPort(sa)
	sa.ZoneId = 3
	b := inet.AddrPort(sa)
	if a == b || a.Addr().Zone() != "2" || ledger.SourceOf(a.Addr(), -1) == ledger.SourceOf(b.Addr(), -1) {
		t.Errorf("%v and %v", a, b)
	}
	own := address(3, netlinktest.IP(unix.IFA_ADDRESS, "fe80::1"))
	ips, err := parseOwnAddrs(append(own, address(2, netlinktest.IP(unix.IFA_ADDRESS, "2001:db8::1"))...))
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[netip.Addr]uint32{a.Addr(): 0, b.Addr(): 3, netip.MustParseAddr("2001:db8::1"): 2} {
		if got := ips[at]; got != want {
			t.Errorf("%v is of device %d, want %d", at, got, want)
		}
	}
	i := &iface{opts: options{allow: []netip.Prefix{netip.MustParsePrefix("fe80::/10")}}}
	if !i.opts.allows(a.Addr()) {
		t.Error("not of its network")
	}
}
