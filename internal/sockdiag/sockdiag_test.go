//go:build linux

package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/internal/needtest"
)

// ends makes a connection through an address of this machine.
func ends(t *testing.T, network, at string) (l *net.TCPListener, client, server *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen(network, at)
	if err != nil {
		needtest.Right(t, "to listen on "+at+": "+err.Error())
	}
	t.Cleanup(func() { ln.Close() })
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return ln.(*net.TCPListener), c.(*net.TCPConn), s.(*net.TCPConn)
}

func inode(t *testing.T, c interface {
	File() (*os.File, error)
}) uint64 {
	t.Helper()
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func addrs(c net.Conn) (local, remote netip.AddrPort) {
	return c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
}

// asker is shared by all tests.
var asker Asker

func supported(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, ErrUnsupported) {
		needtest.Right(t, "NETLINK_SOCK_DIAG for TCP")
	}
}

func TestOtherEnd(t *testing.T) {
	for _, c := range []struct{ network, at string }{
		{"tcp4", "127.0.0.1:0"}, {"tcp4", "127.0.0.2:0"}, {"tcp6", "[::1]:0"}, {"tcp", "[::]:0"},
	} {
		t.Run(c.network+" "+c.at, func(t *testing.T) {
			l, client, server := ends(t, c.network, c.at)
			local, remote := addrs(server)
			s, err := asker.Peer(local, remote)
			supported(t, err)
			if want := inode(t, client); err != nil || s.Inode != want || s.UID != os.Getuid() {
				t.Fatalf("the other end is %+v, %v; want %d of %d", s, err, want, os.Getuid())
			}
			if !HeldBy(os.Getpid(), s.Inode) || HeldBy(1, s.Inode) && os.Getpid() != 1 || HeldBy(os.Getpid(), 1<<40) ||
				HeldBy(os.Getpid(), 0) || HeldBy(-1, s.Inode) || HeldBy(1<<22+1, s.Inode) {
				t.Error("the holder is told wrong")
			}
			s, err = asker.Peer(remote, local)
			if want := inode(t, server); err != nil || s.Inode != want {
				t.Errorf("seen from there %+v, %v; want %d", s, err, want)
			}
			s, err = asker.Listener(local)
			if want := inode(t, l); err != nil || s.Inode != want || s.UID != os.Getuid() {
				t.Errorf("the listener is %+v, %v; want %d", s, err, want)
			}
			// The client's address has no listener, and the listener is not the peer of a
			// connection.
			if s, err := asker.Listener(remote); err != ErrNotFound {
				t.Errorf("listener at the client's address: %+v, %v", s, err)
			}
			l.Close()
			if s, err := asker.Listener(local); err != ErrNotFound {
				t.Errorf("closed listener: %+v, %v", s, err)
			}
		})
	}
}

// TestNobody: sockets that do not exist, or have no owner any more, are not found.
func TestNobody(t *testing.T) {
	_, client, server := ends(t, "tcp4", "127.0.0.1:0")
	local, remote := addrs(server)
	_, err := asker.Peer(local, remote)
	supported(t, err)
	for _, wrong := range []netip.AddrPort{
		netip.MustParseAddrPort("127.0.0.9:9"),
		netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), remote.Port()),
	} {
		if s, err := asker.Peer(local, wrong); err != ErrNotFound {
			t.Errorf("%v: %+v, %v", wrong, s, err)
		}
	}
	if s, err := asker.Peer(local, local); err == nil {
		t.Errorf("a listener as the other end: %+v", s)
	}
	if _, err := asker.Peer(local, netip.MustParseAddrPort("[::1]:1")); !errors.Is(err, unix.EINVAL) {
		t.Errorf("mixed families: %v", err)
	}
	if _, err := asker.Peer(netip.AddrPort{}, netip.AddrPort{}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("no addresses: %v", err)
	}
	// The kernel keeps a closed connection for a while, without an owner.
	client.Close()
	defer asker.Close()
	if s, err := asker.Peer(local, remote); err != ErrNotFound {
		t.Errorf("closed end: %+v, %v", s, err)
	}
}

func TestAnswers(t *testing.T) {
	ne := binary.NativeEndian
	header := func(typ uint16, body []byte) []byte {
		b := ne.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
		b = ne.AppendUint16(b, typ)
		b = ne.AppendUint16(b, 0)
		b = ne.AppendUint32(b, sequence)
		return append(ne.AppendUint32(b, 7), body...)
	}
	body := make([]byte, fixedLen)
	body[0], body[1] = unix.AF_INET, 1
	good := header(unix.SOCK_DIAG_BY_FAMILY, body)
	if m, err := parse(good); err != nil || !m.connected() {
		t.Fatal(m, err)
	}
	if _, err := parse(header(unix.NLMSG_ERROR, ne.AppendUint32(nil, ^uint32(unix.ENOENT)+1))); err != unix.ENOENT {
		t.Errorf("ENOENT: %v", err)
	}
	long := append([]byte(nil), good...)
	ne.PutUint32(long, uint32(len(long)+1))
	other := append([]byte(nil), good...)
	ne.PutUint32(other[8:], sequence+1)
	strange := append([]byte(nil), body...)
	strange[0] = 99
	for i, b := range [][]byte{
		nil, good[:15], good[:len(good)-1], long, other, header(unix.NLMSG_DONE, nil), header(unix.NLMSG_ERROR, nil),
		header(unix.NLMSG_ERROR, make([]byte, 4)), header(unix.NLMSG_ERROR, []byte{1, 0, 0, 0}),
		header(unix.NLMSG_ERROR, []byte{0, 0, 0, 0x80}), header(unix.SOCK_DIAG_BY_FAMILY, body[:fixedLen-1]),
		header(unix.SOCK_DIAG_BY_FAMILY, strange),
	} {
		if m, err := parse(b); err != unix.EPROTO {
			t.Errorf("answer %d: %+v, %v", i, m, err)
		}
	}
	for state := range 256 {
		m := &message{state: uint8(state), inode: 5}
		switch state {
		case stateSynRecv, stateTimeWait, stateClose, stateListen, stateNewSyn:
			if m.connected() {
				t.Errorf("state %d is a connection", state)
			}
		}
		if state > 12 && m.connected() {
			t.Errorf("state %d is a connection", state)
		}
	}
}

// TestOwner: a socket without an inode has no owner, and the user id of an unmapped user is no
// user.
func TestOwner(t *testing.T) {
	if s, err := (&message{uid: 5}).socket(); err != ErrNotFound {
		t.Errorf("no inode: %+v, %v", s, err)
	}
	if o := overflow(); !o.whole && !foreign(o.uid) || o.whole && foreign(o.uid) {
		t.Error("users of no number are taken for somebody")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(make([]byte, 88))
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		if m, err := parse(b); (m == nil) == (err == nil) {
			t.Fatal(m, err)
		}
	})
}

// TestForeign: in a user namespace all unmapped users have the same user id, which identifies no
// user.
func TestForeign(t *testing.T) {
	old := overflow
	defer func() { overflow = old }()
	overflow = func() users { return users{uid: 65534} }
	if s, err := (&message{inode: 1, uid: 65534}).socket(); err != ErrForeign {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := (&message{inode: 1, uid: 1000}).socket(); err != nil || s.UID != 1000 {
		t.Errorf("%+v, %v", s, err)
	}
	overflow = func() users { return users{uid: 65534, whole: true} }
	if s, err := (&message{inode: 1, uid: 65534}).socket(); err != nil || s.UID != 65534 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestTransient checks which errors say nothing about the socket.
func TestTransient(t *testing.T) {
	for err, want := range map[error]bool{
		unix.EMFILE: true, unix.ENOBUFS: true, fmt.Errorf("sockdiag: %w", unix.EAGAIN): true,
		unix.ENOENT: false, unix.EPERM: false, ErrNotFound: false, ErrForeign: false, ErrUnsupported: false,
	} {
		if Transient(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
	if Transient(nil) {
		t.Error("no error")
	}
}
