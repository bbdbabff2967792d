//go:build simulate

package simnet

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// flavours are the connection managers with a transport that each works with.
var flavours = map[string]string{"nettcp": "nettcp", "netrdmacm": "netrc"}

// openBy opens a context that connects by a connection manager.
func openBy(t *testing.T, tls, manager string) *ucp.Context {
	cfg, err := ucp.ReadConfig("", "")
	check(t, err)
	check(t, cfg.Modify("TLS", tls))
	check(t, cfg.Modify("SOCKADDR_TLS_PRIORITY", manager))
	c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag}, cfg)
	check(t, err)
	return c
}

// begin opens the worker of the process p.
func (n *node) begin(p *Process, tls, manager string) {
	n.Process = p
	var err error
	n.w, err = openBy(n.t, tls, manager).NewWorker(ucp.WorkerParams{})
	check(n.t, err)
}

// dial starts a client process that connects to an address.
func dial(t *testing.T, h *Host, tls, manager string, to netip.AddrPort, f func(n *node)) *node {
	n := &node{t: t}
	n.Process = h.NewProcess(func(p *Process) {
		n.begin(p, tls, manager)
		var err error
		n.ep, err = n.w.NewEndpoint(ucp.EndpointParams{
			RemoteAddr: to, ErrMode: ucp.ErrModePeer,
			OnError: func(_ *ucp.Endpoint, err error, _ any) { n.failed, n.at = err, p.w.now },
		})
		check(t, err)
		f(n)
	})
	return n
}

// serve starts a server process, which accepts clients or rejects them. It runs f for the first one.
func serve(t *testing.T, h *Host, tls, manager string, reject bool, f func(n *node)) *node {
	n := &node{t: t}
	n.Process = h.NewProcess(func(p *Process) {
		n.begin(p, tls, manager)
		_, err := n.w.NewListener(ucp.ListenerParams{
			Addr: netip.AddrPortFrom(h.addr, 77),
			OnConnRequest: func(r *ucp.ConnRequest) {
				if reject {
					check(t, r.Reject())
					return
				}
				var err error
				n.ep, err = n.w.NewEndpoint(ucp.EndpointParams{
					ConnRequest: r, ErrMode: ucp.ErrModePeer,
					OnError: func(_ *ucp.Endpoint, err error, _ any) { n.failed, n.at = err, p.w.now },
				})
				check(t, err)
			},
		})
		check(t, err)
		n.until(time.Minute, func() bool { return n.ep != nil })
		if n.ep != nil {
			f(n)
		}
	})
	return n
}

// connected runs a client that connects by a socket address. Both sides exchange messages, and the close
// of the client reaches the server.
func connected(t *testing.T, tls, manager string) uint64 {
	w := New(1)
	defer w.Close()
	a, b := w.NewHost(), w.NewHost()
	done := 0
	talk := func(n *node) {
		check(t, n.send(7, 3000))
		check(t, n.receive(7, 3000))
		done++
	}
	s := serve(t, b, tls, manager, false, func(n *node) {
		talk(n)
		n.until(time.Minute, func() bool { return n.failed != nil })
	})
	dial(t, a, tls, manager, netip.AddrPortFrom(b.addr, 77), func(n *node) {
		talk(n)
		r, err := n.ep.CloseAsync(nil)
		check(t, n.wait(r, err))
	})
	run(t, w)
	if done != 2 || !errors.Is(s.failed, ucs.ErrConnectionReset) {
		t.Errorf("%d sides are done; the server's endpoint ends with %v", done, s.failed)
	}
	return w.Digest()
}

func TestConnect(t *testing.T) {
	for manager, tls := range flavours {
		t.Run(manager, func(t *testing.T) {
			if one, two := connected(t, tls, manager), connected(t, tls, manager); one != two {
				t.Error("two runs with a seed differ")
			}
		})
	}
}

// TestConnectFailures: the errors of connections that do not come to be.
func TestConnectFailures(t *testing.T) {
	for manager, tls := range flavours {
		for name, c := range map[string]struct {
			want   error
			by     time.Duration
			reject bool
			fault  func(w *World, a, b *Host, s *node)
			port   uint16
		}{
			"rejected":    {want: ucs.ErrRejected, by: time.Second, reject: true, port: 77},
			"no server":   {want: ucs.ErrNotConnected, by: time.Second, port: 78},
			"partition":   {want: ucs.ErrUnreachable, by: 130 * time.Second, port: 77, fault: func(w *World, a, b *Host, _ *node) { w.Net.Partition(a, b) }},
			"dead server": {want: ucs.ErrNotConnected, by: time.Second, port: 77, fault: func(_ *World, _, _ *Host, s *node) { s.Kill() }},
		} {
			t.Run(manager+"/"+name, func(t *testing.T) {
				w, a, b := world(t)
				s := serve(t, b, tls, manager, c.reject, func(n *node) {})
				if c.fault != nil {
					w.At(time.Millisecond*2, func() { c.fault(w, a, b, s) })
				}
				var n *node
				w.At(3*time.Millisecond, func() {
					n = dial(t, a, tls, manager, netip.AddrPortFrom(b.addr, c.port), func(n *node) {
						n.until(3*time.Minute, func() bool { return n.failed != nil })
					})
				})
				run(t, w)
				if !errors.Is(n.failed, c.want) || n.at > c.by {
					t.Errorf("%v at %v", n.failed, n.at)
				}
			})
		}
	}
}
