//go:build linux

package ucp

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
)

// TestRDMACM checks that a client and a server of this library connect through the RDMA connection
// manager over the RDMA devices of the virtual machine, and through the next connection manager
// where no RDMA device reaches the server.
func TestRDMACM(t *testing.T) {
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("the addresses are those of the VM, make test-rxe runs this there")
	}
	rdmatest.All(t)
	for _, c := range []struct{ tls, all, server, client, device string }{
		{"ud", "n", "10.9.0.2", "10.9.0.1", "ud_verbs/rxe0:1"},
		{"ud", "y", "10.9.0.2", "10.9.0.1", "ud_verbs/rxe0:1"},
		{"rc_verbs", "n", "10.9.0.2", "10.9.0.1", "rc_verbs/rxe0:1"},
		{"rc", "y", "10.9.0.2", "10.9.0.1", "rc_verbs/rxe0:1"},
		{"ib,tcp", "y", "10.9.0.2", "10.9.0.1", "rc_verbs/rxe0:1"},
		{"ib,tcp", "n", "127.0.0.1", "", "tcp/lo"},        // no RDMA device reaches this address
		{"tcp", "n", "10.9.0.2", "10.9.0.1", "tcp/veth0"}, // no RDMA device is in use
	} {
		t.Run(fmt.Sprintf("%s to %s, all devices %s", c.tls, c.server, c.all), func(t *testing.T) {
			ctx := targetContext(t, "TLS", c.tls, "CM_USE_ALL_DEVICES", c.all)
			w := [2]*Worker{openTarget(t, ctx), openTarget(t, ctx)}
			t.Cleanup(func() {
				for _, err := range []error{w[0].Close(), w[1].Close(), ctx.Close()} {
					if err != nil {
						t.Error(err)
					}
				}
			})
			var back *Endpoint
			p := ListenerParams{Addr: netip.AddrPortFrom(netip.MustParseAddr(c.server), 0), OnAccept: func(ep *Endpoint) { back = ep }}
			l, err := w[1].NewListener(p)
			if err != nil {
				t.Fatal(err)
			}
			to := EndpointParams{RemoteAddr: l.Addr(), ErrMode: ErrModePeer}
			if c.client != "" {
				to.LocalAddr = netip.AddrPortFrom(netip.MustParseAddr(c.client), 0)
			}
			there, err := w[0].NewEndpoint(to)
			if err != nil {
				t.Fatal(err)
			}
			data := bytes.Repeat([]byte("rdma"), 25_000)
			buf := make([]byte, len(data))
			r, err := w[1].TagRecv(1, FullMask, buf, nil)
			if err != nil {
				t.Fatal(err)
			}
			q, err := there.TagSendSync(1, data, nil)
			if err != nil {
				t.Fatal(err)
			}
			for !q.Done() || !r.Done() {
				w[0].Progress()
				w[1].Progress()
				if there.Err() != nil || back != nil && back.Err() != nil {
					t.Fatalf("the client: %v; the server: %v", there.Err(), back)
				}
			}
			if !bytes.Equal(buf, data) {
				t.Error("other data came")
			}
			if am := there.w.selection.laneName(there, int(there.amLane())); am != c.device {
				t.Errorf("over %s, want %s", am, c.device)
			}
			there.Close()
			for back.Err() == nil {
				w[0].Progress()
				w[1].Progress()
			}
			back.Close()
		})
	}
}
