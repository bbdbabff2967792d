//go:build linux

package rdmacm_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// childEnv names the variable that makes the test binary a client of the address in it. The client
// connects and then waits to be killed.
const childEnv = "CM_TEST_CHILD"

func TestMain(m *testing.M) {
	if to := os.Getenv(childEnv); to != "" {
		fmt.Fprintln(os.Stderr, child(to))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child returns only if it fails.
func child(to string) error {
	from, dst, _ := strings.Cut(to, " ")
	ctx := context.Background()
	c, err := rdmacm.Resolve(ctx, netip.MustParseAddrPort(dst), &rdmacm.Config{Source: netip.AddrPortFrom(netip.MustParseAddr(from), 0)})
	if err != nil {
		return err
	}
	dev, err := new(rdmacm.Contexts).Open(c.Addr())
	if err != nil {
		return err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	cq, err := dev.CreateCQ(1, nil, 0)
	if err != nil {
		return err
	}
	qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
	if err != nil {
		return err
	}
	if err := c.Connect(ctx, qp, nil); err != nil {
		return err
	}
	fmt.Println("connected")
	return c.Wait(ctx)
}

// TestKilled checks that the death of a peer is noticed.
func TestKilled(t *testing.T) {
	r := deviceRig(t)
	l := r.listen(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+r.client.String()+" "+l.Addr().String())
	cmd.Stderr = os.Stderr
	out := must(cmd.StdoutPipe())(t)
	check(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	c := must(l.GetRequest(timeout(t)))(t)
	e := r.newEnd(t, c.Addr(), verbs.RC)
	check(t, c.Accept(timeout(t), e.qp, nil))
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "connected\n" {
		t.Fatalf("%q, %v", line, err)
	}
	check(t, cmd.Process.Kill())
	check(t, c.Wait(timeout(t)))
	check(t, c.Disconnect(timeout(t)))
	check(t, c.Close())
	e.close(t)
}

// resources returns the output of `rdma resource`.
func resources(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("rdma", "resource").Output()
	if err != nil {
		needtest.Tool(t, fmt.Sprintf("rdma resource: %v (apt-get install iproute2)", err))
	}
	return string(out)
}

// TestNothingLeft checks that connections which come and go leave nothing in the kernel.
func TestNothingLeft(t *testing.T) {
	if os.Getenv("VM_NET") == "" {
		t.Skip("others may use the devices of this machine; make test-rxe has some in a VM")
	}
	before := resources(t)
	t.Cleanup(func() { // after everything of the rig is closed
		for deadline := time.Now().Add(eventTimeout); resources(t) != before; {
			if time.Now().After(deadline) {
				t.Fatalf("before\n%safter\n%s", before, resources(t))
			}
		}
	})
	r := deviceRig(t)
	l := r.listen(t)
	var open []*pair
	for range 20 {
		open = append(open, r.connect(t, l))
	}
	if during := resources(t); during == before {
		t.Errorf("20 connections do not show:\n%s", during)
	}
	for i, p := range open {
		if i%2 == 0 {
			ended := make(chan error)
			go func() { ended <- p.server.Wait(timeout(t)) }()
			check(t, p.client.Disconnect(timeout(t)))
			check(t, <-ended)
		}
		p.close(t)
	}
}

// TestNoNeighbor checks the error if there is a route but no neighbor.
func TestNoNeighbor(t *testing.T) {
	r := deviceRig(t)
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("which address nobody has is known in the VM only")
	}
	cfg := r.config()
	cfg.ResolveTimeout = 100 * time.Millisecond
	_, err := rdmacm.Resolve(timeout(t), netip.MustParseAddrPort("10.9.0.77:1"), cfg)
	wantErr(t, err, ucs.ErrUnreachable, "an address nobody has")
	_, err = rdmacm.Resolve(timeout(t), netip.MustParseAddrPort("192.0.2.1:1"), cfg)
	if err == nil {
		t.Error("an address no way leads to")
	}
	t.Log(err)
}

// TestIPv6 connects by IPv6 addresses, including link-local ones.
func TestIPv6(t *testing.T) {
	r := deviceRig(t)
	for _, d := range must(devices())(t) {
		i, err := net.InterfaceByName(d.Parent)
		if err != nil {
			continue
		}
		for _, a := range must(i.Addrs())(t) {
			ip, err := netip.ParsePrefix(a.String())
			if err != nil || !ip.Addr().Is6() || ip.Addr().Is4In6() {
				continue
			}
			r.client = ip.Addr()
			if r.client.IsLinkLocalUnicast() {
				r.client = r.client.WithZone(i.Name)
			}
			r.server = r.client
			for deadline := time.Now().Add(eventTimeout); ; { // duplicate address detection may still be running
				l, err := rdmacm.Listen(netip.AddrPortFrom(r.server, 0), r.config())
				if err == nil {
					l.Close()
					break
				}
				if time.Now().After(deadline) {
					t.Fatal(err)
				}
			}
			testConnect(t, r)
			testDatagrams(t, r)
			return
		}
	}
	t.Skip("no RDMA device has an IPv6 address")
}
