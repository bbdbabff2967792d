package rdmacm_test

import (
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
)

// shell runs a line of the shell.
func shell(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, strings.TrimSpace(string(out)))
	}
}

// TestRemoval: a device goes while IDs are on it.
func TestRemoval(t *testing.T) {
	r := deviceRig(t)
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("devices are made and removed in the VM only")
	}
	shell(t, "ip link add veth8 type veth peer name veth9 && ip addr add 10.8.0.1/24 dev veth8 && ip link set veth8 up && "+
		"ip link set veth9 up && rdma link add rxe8 type rxe netdev veth8")
	t.Cleanup(func() { shell(t, "ip link del veth8") })
	r.client = netip.MustParseAddr("10.8.0.1")
	r.server = r.client
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
