//go:build linux

package cm

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func shell(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, strings.TrimSpace(string(out)))
	}
}

// newDevice makes a device rxe8 at 10.8.0.1, on a cable without a machine at the other end.
// Duplicate address detection is off, because it would make the addresses unusable for a second.
func newDevice(t *testing.T) *ucttest.ConnFixture {
	t.Helper()
	needDevices(t)
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("devices are made and removed in the VM only")
	}
	shell(t, "ip link add veth8 type veth peer name veth9 && echo 0 >/proc/sys/net/ipv6/conf/veth8/accept_dad && ip addr add 10.8.0.1/24 dev veth8 && ip link set veth8 up && "+
		"ip link set veth9 up && rdma link add rxe8 type rxe netdev veth8")
	t.Cleanup(func() { shell(t, "ip link del veth8") })
	return deviceFixture(t, netip.MustParseAddr("10.8.0.1"))
}

// TestDeviceRemoval removes a device under connections, a request and a listener. rdma_rxe waits
// until no process has it open.
func TestDeviceRemoval(t *testing.T) {
	ucttest.NoLeaks(t)
	f := newDevice(t)
	a, b := f.Open(t), f.Open(t)
	l := b.Listen(t, uct.ListenParams{})
	client, served := a.Pair(t, b, l)
	half := a.Connect(t, l, nil)
	q := b.Request(t, a)
	if q.Device != "rxe8:1" {
		t.Errorf("the request came over %s", q.Device)
	}
	gone := make(chan error, 1)
	go func() { gone <- exec.Command("rdma", "link", "del", "rxe8").Run() }()
	over := false
	ucttest.UntilConn(t, "the device to go", func() bool {
		select {
		case err := <-gone:
			if over = true; err != nil {
				t.Error(err)
			}
		default:
		}
		return over
	}, a, b)
	for what, e := range map[string]*ucttest.ConnEnd{"the client": client, "the server": served, "the one that has asked": half} {
		ucttest.UntilConn(t, what+" to be told", func() bool { _, told := e.Reported(); return told }, a, b)
		err, _ := e.Reported()
		t.Logf("%s: %v", what, err)
		if !errors.Is(err, ucs.ErrConnectionReset) && (e != half || !errors.Is(err, ucs.ErrUnreachable) && !errors.Is(err, ucs.ErrNotConnected)) {
			t.Errorf("%s is told %v", what, err)
		}
	}
	if _, err := b.TryAccept(t, q, nil); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("accepting over a device that is gone: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	// The managers still work with the remaining devices, and with new ones.
	e := a.ConnectTo(t, uct.ConnectParams{Remote: l.Addr()})
	if err := told(t, e, a, b); !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("connecting where no device is: %v", err)
	}
	shell(t, "rdma link add rxe8 type rxe netdev veth8")
	l = b.Listen(t, uct.ListenParams{})
	a.Pair(t, b, l)
}

// TestDeviceLoopback checks that connecting to 127.0.0.1, to which no device leads, fails in
// Progress, so that a client tries another manager.
func TestDeviceLoopback(t *testing.T) {
	needDevices(t)
	ucttest.NoLeaks(t)
	a := deviceFixture(t, netip.Addr{}).Open(t)
	e := a.ConnectTo(t, uct.ConnectParams{Remote: netip.MustParseAddrPort("127.0.0.1:12345")})
	err := told(t, e, a)
	t.Log(err)
	if !errors.Is(err, ucs.ErrUnreachable) && !errors.Is(err, ucs.ErrNotConnected) { // the latter with rxe on lo, for some kernels
		t.Errorf("told %v", err)
	}
}
