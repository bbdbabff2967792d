//go:build linux

package rdmacm_test

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// shell runs a line of the shell.
func shell(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, strings.TrimSpace(string(out)))
	}
}

// newDevice makes a device rxe8 at 10.8.0.1, on a cable without a machine at the other end.
func newDevice(t *testing.T) *rig {
	t.Helper()
	r := deviceRig(t)
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("devices are made and removed in the VM only")
	}
	shell(t, "ip link add veth8 type veth peer name veth9 && ip addr add 10.8.0.1/24 dev veth8 && ip link set veth8 up && "+
		"ip link set veth9 up && rdma link add rxe8 type rxe netdev veth8")
	t.Cleanup(func() { shell(t, "ip link del veth8") })
	r.client = netip.MustParseAddr("10.8.0.1")
	r.server = r.client
	return r
}

// TestRemoval removes a device with IDs on it.
func TestRemoval(t *testing.T) {
	r := newDevice(t)
	l := r.listen(t)
	conn, err := rdmacm.Resolve(timeout(t), l.Addr(), r.config())
	check(t, err)
	a := conn.Addr()
	shell(t, "rdma link del rxe8")
	wantErr(t, conn.Wait(timeout(t)), ucs.ErrNoDevice, "a way over a device that goes")
	_, err = l.GetRequest(timeout(t))
	wantErr(t, err, ucs.ErrNoDevice, "a listener on a device that goes")
	if err := conn.ID().Disconnect(); err == nil {
		t.Error("a connection of a device that is gone ends")
	}
	_, err = r.open(a)
	wantErr(t, err, ucs.ErrNoDevice, "a device that is gone")
	check(t, conn.ID().Close())
	check(t, conn.Close())
	check(t, l.Close())
}

// TestSilence checks a peer whose hardware address is known but which does not answer. The kernel
// takes a minute to give up.
func TestSilence(t *testing.T) {
	r := newDevice(t)
	var open rdmacm.Contexts
	defer open.Close()
	r.open = open.Open
	shell(t, "ip neigh add 10.8.0.2 lladdr 02:00:00:00:00:02 dev veth8 nud permanent")
	long := os.Getenv("RXE_LONG") == "1"
	limit, want := time.Second, ucs.ErrTimedOut
	if long {
		limit, want = 10*time.Minute, ucs.ErrUnreachable
	}
	conn := must(rdmacm.Resolve(timeout(t), netip.MustParseAddrPort("10.8.0.2:1"), r.config()))(t)
	e := r.newEnd(t, conn.Addr(), verbs.RC)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	start := time.Now()
	err := conn.Connect(ctx, e.qp, nil)
	wantErr(t, err, want, "a peer that does not answer")
	wantErr(t, err, ucs.ErrTimedOut, "a peer that does not answer")
	t.Logf("%v after %v", err, time.Since(start))
	check(t, conn.Close())
	e.close(t)
}
