//go:build linux

package inet

import (
	"errors"
	"net/netip"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// TestDevices checks the mapping of device names to numbers and back.
func TestDevices(t *testing.T) {
	n, err := deviceNumber("lo")
	if err != nil || n == 0 {
		t.Fatalf("lo is number %d, error %v", n, err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if name, err := DeviceName(fd, n); name != "lo" || err != nil {
		t.Errorf("number %d is %q, error %v", n, name, err)
	}
	if same, err := deviceNumber(strconv.Itoa(int(n))); same != n || err != nil {
		t.Errorf("number %d as text is %d, error %v", n, same, err)
	}
	if name, err := DeviceName(fd, 1<<30); !errors.Is(err, ucs.ErrNoDevice) {
		t.Errorf("a number of no device is %q, error %v", name, err)
	}
}

// TestSockaddr: an address converted for the kernel and back is the same.
func TestSockaddr(t *testing.T) {
	lo, err := deviceNumber("lo")
	if err != nil {
		t.Fatal(err)
	}
	zone := strconv.Itoa(int(lo))
	for text, want := range map[string]string{
		"192.0.2.1:80":             "192.0.2.1:80",
		"[::ffff:192.0.2.1]:80":    "192.0.2.1:80",
		"[2001:db8::1]:65535":      "[2001:db8::1]:65535",
		"[fe80::1%lo]:7":           "[fe80::1%" + zone + "]:7",
		"[fe80::1%" + zone + "]:7": "[fe80::1%" + zone + "]:7",
	} {
		sa, err := Sockaddr(netip.MustParseAddrPort(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var back syscall.Sockaddr
		switch sa := sa.(type) {
		case *unix.SockaddrInet4:
			back = &syscall.SockaddrInet4{Port: sa.Port, Addr: sa.Addr}
		case *unix.SockaddrInet6:
			back = &syscall.SockaddrInet6{Port: sa.Port, Addr: sa.Addr, ZoneId: sa.ZoneId}
		}
		if got := AddrPort(back); got.String() != want {
			t.Errorf("%s became %v, want %s", text, got, want)
		}
	}
	for _, a := range []netip.AddrPort{{}, netip.MustParseAddrPort("[fe80::1%no-such-device]:7")} {
		if sa, err := Sockaddr(a); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("%v became %v, error %v", a, sa, err)
		}
	}
	if a := AddrPort(&syscall.SockaddrUnix{}); a.IsValid() {
		t.Errorf("no address became %v", a)
	}
}
